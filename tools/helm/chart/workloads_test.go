package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/echomind/sync/tools/helm/chart/render"
)

var services = []string{"scheduler", "connector", "chunker", "semantic", "api"}

// dev and production are helm's arguments for the two values files.
var (
	dev        = []string{"-f", render.Values("values-dev.yaml"), "--set", "devPassword=a-word"}
	production = []string{"-f", render.Values("values-production.yaml")}
)

// with are arguments; the last ones count.
func with(base []string, sets ...string) []string {
	args := slices.Clone(base)
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	return args
}

func deployment(t *testing.T, all render.Objects, service string) *appsv1.Deployment {
	t.Helper()
	return render.Find[appsv1.Deployment](t, all, "Deployment", "e-echomind-"+service)
}

// podSpecs are those of everything that runs pods, by what they belong to.
func podSpecs(t *testing.T, all render.Objects) map[string]corev1.PodTemplateSpec {
	t.Helper()
	specs := map[string]corev1.PodTemplateSpec{}
	for _, o := range all {
		name := o.GetKind() + " " + o.GetName()
		switch o.GetKind() {
		case "Deployment":
			specs[name] = render.Find[appsv1.Deployment](t, all, o.GetKind(), o.GetName()).Spec.Template
		case "StatefulSet":
			specs[name] = render.Find[appsv1.StatefulSet](t, all, o.GetKind(), o.GetName()).Spec.Template
		case "Job":
			specs[name] = render.Find[batchv1.Job](t, all, o.GetKind(), o.GetName()).Spec.Template
		case "CronJob":
			specs[name] = render.Find[batchv1.CronJob](t, all, o.GetKind(), o.GetName()).Spec.JobTemplate.Spec.Template
		case "Pod":
			pod := render.Find[corev1.Pod](t, all, o.GetKind(), o.GetName())
			specs[name] = corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
		}
	}
	return specs
}

func TestTheChartPassesLintWithEveryValuesFile(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"dev": dev, "production": production} {
		if out, err := render.Helm(t, nil, append([]string{"lint", "--strict", render.Chart()}, args...)...); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestEachServiceHasProbesAndRoomToEndIn(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "semantic.env.SHUTDOWN_GRACE_SECONDS=100", "semantic.preStopSeconds=7")...)
	for _, service := range services {
		d := deployment(t, all, service)
		spec := d.Spec.Template.Spec
		c := spec.Containers[0]
		if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.StartupProbe.HTTPGet.Path != "/healthz" {
			t.Errorf("%s: probes %v %v %v", service, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe)
		}
		wantGrace, wantSleep := int64(37), int64(2)
		switch service {
		case "semantic":
			wantGrace, wantSleep = 117, 7
		case "api":
			wantGrace, wantSleep = 40, 5
		}
		if got := *spec.TerminationGracePeriodSeconds; got != wantGrace {
			t.Errorf("%s: %d s to end in, want %d", service, got, wantGrace)
		}
		if got := c.Lifecycle.PreStop.Sleep.Seconds; got != wantSleep {
			t.Errorf("%s: preStop sleeps %d s, want %d", service, got, wantSleep)
		}
		if len(spec.TopologySpreadConstraints) != 2 {
			t.Errorf("%s is spread by %v", service, spec.TopologySpreadConstraints)
		}
		for _, s := range spec.TopologySpreadConstraints {
			if s.LabelSelector.MatchLabels["app.kubernetes.io/component"] != service {
				t.Errorf("%s is spread by other pods' labels: %v", service, s.LabelSelector)
			}
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: resources %v", service, c.Resources)
		}
		pdb := render.Find[policyv1.PodDisruptionBudget](t, all, "PodDisruptionBudget", "e-echomind-"+service)
		if pdb.Spec.MaxUnavailable.IntValue() != 1 || pdb.Spec.Selector.MatchLabels["app.kubernetes.io/component"] != service {
			t.Errorf("%s: budget %v", service, pdb.Spec)
		}
	}
}

func TestTwoSchedulersAvoidEachOthersNodes(t *testing.T) {
	t.Parallel()
	required := deployment(t, render.Template(t, production...), "scheduler")
	if *required.Spec.Replicas != 2 {
		t.Errorf("%d schedulers", *required.Spec.Replicas)
	}
	terms := required.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].TopologyKey != "kubernetes.io/hostname" || terms[0].LabelSelector.MatchLabels["app.kubernetes.io/component"] != "scheduler" {
		t.Errorf("required: %v", terms)
	}
	preferred := deployment(t, render.Template(t, dev...), "scheduler").Spec.Template.Spec.Affinity.PodAntiAffinity
	if len(preferred.PreferredDuringSchedulingIgnoredDuringExecution) != 1 || preferred.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		t.Errorf("preferred: %v", preferred)
	}
}

func TestEveryPodKeepsToRestrictedSecurity(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{dev, production} {
		for name, pod := range podSpecs(t, render.Template(t, args...)) {
			s := pod.Spec.SecurityContext
			if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != "RuntimeDefault" {
				t.Errorf("%s: security %v", name, s)
			}
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				s := c.SecurityContext
				if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || fmt.Sprint(s.Capabilities.Drop) != "[ALL]" {
					t.Errorf("%s, container %s: security %v", name, c.Name, s)
				}
			}
		}
	}
}

func TestOnlyASchedulerThatElectsByLeaseHasAToken(t *testing.T) {
	t.Parallel()
	for election, tokens := range map[string][]string{"kubernetes": {"Deployment e-echomind-scheduler"}, "postgres": nil} {
		all := render.Template(t, with(production, "scheduler.env.SCHEDULER_LEADER_ELECTION="+election)...)
		var have []string
		for name, pod := range podSpecs(t, all) {
			if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
				have = append(have, name)
			}
		}
		if !slices.Equal(have, tokens) {
			t.Errorf("%s: a token for %v", election, have)
		}
		if roles := len(all.Kind("Role")); roles != len(tokens) {
			t.Errorf("%s: %d roles", election, roles)
		}
	}
}

func TestAnImageIsNamedByRegistryTagAndDigest(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("ab", 32)
	all := render.Template(t, with(production, "image.registry=registry.example:5000", "image.tag=v7", "image.digests.semantic="+digest)...)
	for service, want := range map[string]string{
		"scheduler": "registry.example:5000/echomind/scheduler:v7", "semantic": "registry.example:5000/echomind/semantic@" + digest,
	} {
		if got := deployment(t, all, service).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestHelmTestAsksEveryServiceThatIsInstalled(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "connector.enabled=false")...)
	pod := render.Find[corev1.Pod](t, all, "Pod", "e-echomind-test")
	if pod.Annotations["helm.sh/hook"] != "test" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	var asked []string
	for _, c := range pod.Spec.Containers {
		asked = append(asked, c.Env[0].Value+" "+strings.Join(c.Args, " "))
		render.Find[corev1.Service](t, all, "Service", "e-echomind-"+c.Name)
	}
	want := []string{"e-echomind-scheduler:8080 health", "e-echomind-chunker:8080 health", "e-echomind-semantic:8080 health", "e-echomind-api:8080 health"}
	if !slices.Equal(asked, want) {
		t.Errorf("asks %v", asked)
	}
}
