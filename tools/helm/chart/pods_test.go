package chart

import (
	"testing"

	"github.com/echomind/sync/tools/helm/chart/render"
)

func TestOpenShiftChoosesUserAndGroups(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "common.podSecurityContext.runAsUser=null", "common.podSecurityContext.runAsGroup=null",
		"common.podSecurityContext.fsGroup=null")...)
	for _, service := range services {
		context := deployment(t, all, service).Spec.Template.Spec.SecurityContext
		if context.RunAsUser != nil || context.RunAsGroup != nil || context.FSGroup != nil || !*context.RunAsNonRoot {
			t.Errorf("%s: %+v", service, context)
		}
	}
}

func TestAPodTakesWhatItsOperatorAdds(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production,
		"chunker.hostAliases[0].ip=10.1.2.3", "chunker.hostAliases[0].hostnames[0]=wiki",
		"chunker.extraContainers[0].name=beside", "chunker.extraContainers[0].image=proxy",
		"chunker.initContainers[0].name=before", "chunker.initContainers[0].image=proxy", "chunker.initContainers[0].restartPolicy=Always",
		"chunker.livenessProbe.failureThreshold=9", "chunker.readinessProbe.initialDelaySeconds=3", "chunker.startupProbe.failureThreshold=300",
		"chunker.strategy.type=Recreate", "chunker.strategy.rollingUpdate=null",
		"scheduler.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight=1",
		"scheduler.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key=disk",
		"scheduler.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].operator=Exists")...)
	chunker := deployment(t, all, "chunker").Spec
	pod := chunker.Template.Spec
	if len(pod.HostAliases) != 1 || pod.HostAliases[0].Hostnames[0] != "wiki" {
		t.Errorf("host aliases %v", pod.HostAliases)
	}
	if len(pod.Containers) != 2 || pod.Containers[1].Name != "beside" || len(pod.InitContainers) != 1 {
		t.Errorf("containers %v and %v", pod.InitContainers, pod.Containers)
	}
	own := pod.Containers[0]
	if own.LivenessProbe.FailureThreshold != 9 || own.LivenessProbe.PeriodSeconds != 10 || own.ReadinessProbe.InitialDelaySeconds != 3 ||
		own.StartupProbe.FailureThreshold != 300 {
		t.Errorf("probes %v, %v, %v", own.LivenessProbe, own.ReadinessProbe, own.StartupProbe)
	}
	if chunker.Strategy.Type != "Recreate" || chunker.Strategy.RollingUpdate != nil {
		t.Errorf("strategy %v", chunker.Strategy)
	}
	scheduler := deployment(t, all, "scheduler").Spec
	if affinity := scheduler.Template.Spec.Affinity; affinity.NodeAffinity == nil || affinity.PodAntiAffinity != nil {
		t.Errorf("affinity %v", affinity)
	}
	if *scheduler.Strategy.RollingUpdate.MaxUnavailable != *deployment(t, all, "semantic").Spec.Strategy.RollingUpdate.MaxUnavailable {
		t.Error("the others keep theirs")
	}
}
