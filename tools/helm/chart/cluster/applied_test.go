package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/echomind/sync/tools/helm/chart/render"
)

var definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// deadline bounds what is asked before there is a test.
func deadline() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	context.AfterFunc(ctx, cancel)
	return ctx
}

var (
	dev        = []string{"-f", render.Values("values-dev.yaml"), "--set", "devPassword=a-word"}
	production = []string{"-f", render.Values("values-production.yaml")}
	everything = append(append([]string{}, production...),
		"--set", "chunker.autoscaling.by=cpu", "--set", "semantic.autoscaling.by=age", "--set", "keda.prometheusURL=http://prometheus:9090",
		"--set", "connector.existingSecret=", "--set", "connector.externalSecret=team/connector", "--set", "externalSecrets.storeName=vault",
		"--set", "networkPolicy.traces.to[0].ipBlock.cidr=10.9.9.9/32", "--set", "semantic.pdb.minAvailable=50%",
		"--set", "chunker.natsFiles.creds.secret=s", "--set", "chunker.natsFiles.creds.key=k",
		"--set", "api.autoscaling.by=cpu", "--set", "api.ingress.className=public", "--set", "api.ingress.hosts[1]=*.b.example", "--set", "api.service.annotations.a=b",
		"--set", "api.httpRoute.enabled=true", "--set", "api.httpRoute.hosts[0]=a.example", "--set", "api.httpRoute.parentRefs[0].name=public",
		"--set", "api.httpRoute.parentRefs[0].namespace=gateways", "--set", "api.httpRoute.parentRefs[0].sectionName=https")
)

func TestTheAPIServerTakesEveryObjectWithoutARemark(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	for name, args := range map[string][]string{"dev": dev, "production": production, "everything": everything} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := applierTo(t, server, namespace(t, server))
			kinds := map[string]int{}
			for _, object := range render.Template(t, args...) {
				if err := a.apply(t, object); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
				kinds[object.GetKind()]++
			}
			for _, warning := range a.said {
				t.Errorf("the API server warns: %s", warning)
			}
			t.Logf("applied %v", kinds)
			if name == "everything" {
				for _, kind := range []string{"ServiceMonitor", "PrometheusRule", "ScaledObject", "ExternalSecret", "HorizontalPodAutoscaler", "CronJob", "Ingress", "HTTPRoute"} {
					if kinds[kind] == 0 {
						t.Errorf("no %s was tried", kind)
					}
				}
			}
		})
	}
}

// A Deployment gets a warning at most; whether its pods would come up is decided when they are made.
func TestEveryTemplatesPodIsAdmittedWhereRestrictedSecurityIsEnforced(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	pods := server.Client(t).CoreV1().Pods(namespace(t, server))
	tried := 0
	for _, args := range [][]string{dev, everything} {
		all := render.Template(t, args...)
		for _, o := range all {
			var template corev1.PodTemplateSpec
			switch o.GetKind() {
			case "Deployment":
				template = render.Find[appsv1.Deployment](t, all, o.GetKind(), o.GetName()).Spec.Template
			case "StatefulSet":
				template = render.Find[appsv1.StatefulSet](t, all, o.GetKind(), o.GetName()).Spec.Template
				template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: "data"})
			case "Job":
				template = render.Find[batchv1.Job](t, all, o.GetKind(), o.GetName()).Spec.Template
			case "CronJob":
				template = render.Find[batchv1.CronJob](t, all, o.GetKind(), o.GetName()).Spec.JobTemplate.Spec.Template
			default:
				continue
			}
			tried++
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.GenerateName = strings.ToLower(o.GetName()) + "-"
			made, err := pods.Create(t.Context(), pod, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				continue
			}
			if tried == 1 { // the proof that it is enforced
				made.ResourceVersion, made.Name, made.Spec.SecurityContext.RunAsNonRoot = "", "", nil
				if _, err := pods.Create(t.Context(), made, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
					t.Errorf("a pod that may be root is admitted: %v", err)
				}
			}
		}
	}
	if tried < 14 {
		t.Errorf("only %d templates were tried", tried)
	}
}
