package chart

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/echomind/sync/internal/evidence"
	"github.com/echomind/sync/tools/helm/chart/render"
)

func TestTheServiceOfTheAPILeadsToItsPortAndToNoMetrics(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "api.port=9000", "api.service.port=8000")...)
	service := render.Find[corev1.Service](t, all, "Service", "e-echomind-rest").Spec
	if service.Type != corev1.ServiceTypeClusterIP || service.ClusterIP == "None" || service.PublishNotReadyAddresses || len(service.Ports) != 1 ||
		service.Ports[0].Port != 8000 || service.Ports[0].TargetPort != intstr.FromString("rest") {
		t.Errorf("service %+v", service)
	}
	d := deployment(t, all, "api")
	for key, value := range service.Selector {
		if d.Spec.Template.Labels[key] != value {
			t.Errorf("it selects %v, the pods have %v", service.Selector, d.Spec.Template.Labels)
		}
	}
	ports := map[string]int32{}
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		ports[p.Name] = p.ContainerPort
	}
	if ports["rest"] != 9000 || ports["http"] != 8080 {
		t.Errorf("ports %v", ports)
	}
	if env := render.Find[corev1.ConfigMap](t, all, "ConfigMap", "e-echomind-api").Data; env["API_ADDR"] != ":9000" {
		t.Errorf("the API listens on %s", env["API_ADDR"])
	}
	if d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 || *d.Spec.Replicas != 2 {
		t.Errorf("%d replicas, strategy %v", *d.Spec.Replicas, d.Spec.Strategy)
	}
}

func TestWithoutTheAPINothingOfItIsLeft(t *testing.T) {
	t.Parallel()
	for _, o := range render.Template(t, with(production, "api.enabled=false", "api.ingress.enabled=false")...) {
		if name := o.GetName(); name == "e-echomind-api" || name == "e-echomind-rest" {
			t.Errorf("%s %s", o.GetKind(), name)
		}
	}
	for _, o := range render.Template(t, dev...) {
		if kind := o.GetKind(); kind == "Ingress" || kind == "HTTPRoute" {
			t.Errorf("nobody asked for %s %s", kind, o.GetName())
		}
	}
}

func TestTheIngressHasACertificateForEachHost(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "api.ingress.hosts[1]=*.b.example", "api.ingress.className=public", "api.ingress.path=/api",
		`api.ingress.annotations.cert-manager\.io/cluster-issuer=letsencrypt`)...)
	ingress := render.Find[networkingv1.Ingress](t, all, "Ingress", "e-echomind-rest")
	hosts := []string{"echomind.example.com", "*.b.example"}
	spec := ingress.Spec
	if *spec.IngressClassName != "public" || len(spec.TLS) != 1 || spec.TLS[0].SecretName != "echomind-api-tls" || !slices.Equal(spec.TLS[0].Hosts, hosts) ||
		ingress.Annotations["cert-manager.io/cluster-issuer"] != "letsencrypt" || len(spec.Rules) != len(hosts) {
		t.Fatalf("ingress %+v, annotations %v", spec, ingress.Annotations)
	}
	for i, rule := range spec.Rules {
		path := rule.HTTP.Paths[0]
		if rule.Host != hosts[i] || path.Path != "/api" || *path.PathType != networkingv1.PathTypePrefix || path.Backend.Service.Name != "e-echomind-rest" ||
			path.Backend.Service.Port.Name != "rest" {
			t.Errorf("rule %+v", rule)
		}
	}
	elsewhere := render.Template(t, with(production, "api.ingress.tlsSecret=", "api.tlsElsewhere=true")...)
	if spec := render.Find[networkingv1.Ingress](t, elsewhere, "Ingress", "e-echomind-rest").Spec; spec.TLS != nil || spec.IngressClassName != nil {
		t.Errorf("ingress %+v", spec)
	}
}

func TestTheRouteLeadsFromTheListenerToTheService(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "api.ingress.enabled=false", "api.httpRoute.enabled=true", "api.httpRoute.hosts[0]=a.example", "api.service.port=8000",
		"api.httpRoute.parentRefs[0].name=public", "api.httpRoute.parentRefs[0].namespace=gateways", "api.httpRoute.parentRefs[0].sectionName=https")...)
	if len(all.Kind("Ingress")) > 0 || len(all.Kind("HTTPRoute")) != 1 {
		t.Fatal("one route, and no Ingress, was asked for")
	}
	text, err := json.Marshal(all.Kind("HTTPRoute")[0].Object["spec"])
	want := `{"hostnames":["a.example"],"parentRefs":[{"name":"public","namespace":"gateways","sectionName":"https"}],` +
		`"rules":[{"backendRefs":[{"name":"e-echomind-rest","port":8000}],"matches":[{"path":{"type":"PathPrefix","value":"/"}}]}]}`
	if err != nil || string(text) != want {
		t.Errorf("the route is %s", text)
	}
}

func TestOnlyWhoIsNamedReachesTheAPIAndNobodyElseBrowsesItsMetrics(t *testing.T) {
	t.Parallel()
	all := render.Template(t, production...)
	for _, service := range services {
		ingress := render.Find[networkingv1.NetworkPolicy](t, all, "NetworkPolicy", "e-echomind-"+service).Spec.Ingress
		from := map[string]string{}
		for _, rule := range ingress {
			for _, peer := range rule.From {
				if peer.NamespaceSelector != nil {
					from[rule.Ports[0].Port.StrVal] += peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]
				}
			}
		}
		want := map[string]string{"http": "monitoring"}
		if service == "api" {
			want["rest"] = "ingress-nginx"
		}
		if !reflect.DeepEqual(from, want) {
			t.Errorf("%s is reached by %v", service, from)
		}
	}
	closed := render.Template(t, with(production, "api.ingress.enabled=false", "networkPolicy.apiFrom=null")...)
	if rules := render.Find[networkingv1.NetworkPolicy](t, closed, "NetworkPolicy", "e-echomind-api").Spec.Ingress; len(rules) != 1 || rules[0].Ports[0].Port.StrVal != "http" {
		t.Errorf("where nobody is named it is reached by %v", rules)
	}
}

func TestTheAPIScalesByCPU(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "api.autoscaling.by=cpu")...)
	hpa := render.Find[autoscalingv2.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler", "e-echomind-api").Spec
	if deployment(t, all, "api").Spec.Replicas != nil || hpa.ScaleTargetRef.Name != "e-echomind-api" || *hpa.MinReplicas != 2 || hpa.MaxReplicas != 8 {
		t.Errorf("%+v", hpa)
	}
}

// The chart lists them by name: what the API reads of the scheduler's settings, and nothing else.
func TestTheAPIIsToldTheSettingsOfTheScheduler(t *testing.T) {
	t.Parallel()
	var sets []string
	want := map[string]string{}
	for field := range reflect.TypeFor[evidence.SchedulerSays]().Fields() {
		name, value := field.Tag.Get("env"), "7"
		if strings.HasSuffix(name, "_TIMEOUT") {
			value = "7h"
		}
		sets, want[name] = append(sets, "scheduler.env."+name+"="+value), value
	}
	all := render.Template(t, with(production, sets...)...)
	env := render.Find[corev1.ConfigMap](t, all, "ConfigMap", "e-echomind-api").Data
	for name, value := range want {
		if env[name] != value {
			t.Errorf("%s is %q to the API", name, env[name])
		}
	}
	for name := range env {
		if _, told := want[name]; !told && strings.HasPrefix(name, "SCHEDULER_") {
			t.Errorf("the API is told %s", name)
		}
	}
}
