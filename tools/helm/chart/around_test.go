package chart

import (
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/echomind/sync/tools/helm/chart/render"
)

func TestTheRoleReachesOneLease(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"e-echomind-scheduler", "another"} {
		var sets []string
		if name == "another" {
			sets = []string{"scheduler.env.SCHEDULER_LEASE_NAME=another"}
		}
		all := render.Template(t, with(production, sets...)...)
		rules := render.Find[rbacv1.Role](t, all, "Role", "e-echomind-scheduler").Rules
		if len(rules) != 2 || !slices.Equal(rules[0].Verbs, []string{"get", "update"}) || !slices.Equal(rules[0].ResourceNames, []string{name}) ||
			!slices.Equal(rules[1].Verbs, []string{"create"}) || len(all.Kind("ClusterRole")) > 0 {
			t.Errorf("rules %v", rules)
		}
		if got := render.Find[corev1.ConfigMap](t, all, "ConfigMap", "e-echomind-scheduler").Data["SCHEDULER_LEASE_NAME"]; got != name {
			t.Errorf("the scheduler is told %q, the role %q", got, name)
		}
	}
}

func TestConsumersScaleByCPUOrByAge(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "chunker.autoscaling.by=cpu", "semantic.autoscaling.by=age", "connector.autoscaling.by=age",
		"keda.prometheusURL=http://prometheus:9090")...)
	if deployment(t, all, "chunker").Spec.Replicas != nil || deployment(t, all, "semantic").Spec.Replicas != nil {
		t.Error("a Deployment takes back what the autoscaler has set")
	}
	hpa := render.Find[autoscalingv2.HorizontalPodAutoscaler](t, all, "HorizontalPodAutoscaler", "e-echomind-chunker").Spec
	if hpa.ScaleTargetRef.Name != "e-echomind-chunker" || *hpa.MinReplicas != 1 || hpa.MaxReplicas != 8 || *hpa.Metrics[0].Resource.Target.AverageUtilization != 70 {
		t.Errorf("by CPU: %+v", hpa)
	}
	queries := map[string]string{
		"e-echomind-semantic":  `max(stream_oldest_message_age_seconds{namespace="sync",stream="DOCUMENT_PROCESS"})`,
		"e-echomind-connector": `max(scheduler_oldest_pending_seconds{namespace="sync",type=~"onedrive|google_drive|teams"})`,
	}
	for _, o := range all.Kind("ScaledObject") {
		triggers, _, _ := unstructured.NestedSlice(o.Object, "spec", "triggers")
		metadata := triggers[0].(map[string]any)["metadata"].(map[string]any)
		if metadata["query"] != queries[o.GetName()] || metadata["threshold"] != "60" || metadata["serverAddress"] != "http://prometheus:9090" {
			t.Errorf("%s: %v", o.GetName(), metadata)
		}
		delete(queries, o.GetName())
	}
	if len(queries) > 0 {
		t.Errorf("nothing scales %v", queries)
	}
}

// reaches says whether a policy lets a pod out to an address outside of every pod's network, by a port.
func reaches(policy *networkingv1.NetworkPolicy, address string, port int32) bool {
	a := netip.MustParseAddr(address)
	for _, rule := range policy.Spec.Egress {
		ports := len(rule.Ports) == 0
		for _, p := range rule.Ports {
			ports = ports || p.Port.IntVal == port && (p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP)
		}
		for _, peer := range rule.To {
			if !ports || peer.IPBlock == nil || !netip.MustParsePrefix(peer.IPBlock.CIDR).Contains(a) {
				continue
			}
			if !slices.ContainsFunc(peer.IPBlock.Except, func(except string) bool { return netip.MustParsePrefix(except).Contains(a) }) {
				return true
			}
		}
		if ports && len(rule.To) == 0 {
			return true
		}
	}
	return false
}

func TestOnlyChunkerAndConnectorReachTheInternetAndNothingInside(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "networkPolicy.internet.clusterIPv4[0]=203.0.113.0/24", "networkPolicy.traces.to[0].ipBlock.cidr=10.9.9.9/32",
		"networkPolicy.qdrant.to[0].ipBlock.cidr=10.8.8.8/32", "networkPolicy.uploads.to[0].ipBlock.cidr=10.7.7.7/32", "networkPolicy.uploads.port=9000")...)
	type way struct {
		address string
		port    int32
	}
	outside := []way{{"93.184.216.34", 443}, {"2606:2800:220:1::1", 443}}
	inside := []way{
		{"10.1.2.3", 443}, {"172.20.0.1", 443}, {"192.168.1.1", 80}, {"169.254.169.254", 80}, {"127.0.0.1", 80}, {"100.100.1.1", 443},
		{"203.0.113.9", 443}, {"fd00::1", 443}, {"fe80::1", 80}, {"::1", 80}, {"::ffff:10.0.0.1", 80}, {"64:ff9b::a00:1", 443}, {"0.0.0.0", 80},
		{"93.184.216.34", 22}, {"93.184.216.34", 5432}, {"10.96.0.1", 80},
	}
	for _, component := range append(slices.Clone(services), "setup", "streams") {
		policy := render.Find[networkingv1.NetworkPolicy](t, all, "NetworkPolicy", "e-echomind-"+component)
		if len(policy.Spec.PolicyTypes) != 2 || policy.Spec.PodSelector.MatchLabels["app.kubernetes.io/component"] != component {
			t.Errorf("%s: %v", component, policy.Spec)
		}
		goesOut := component == "chunker" || component == "connector"
		for _, w := range outside {
			if reaches(policy, w.address, w.port) != goesOut {
				t.Errorf("%s reaches %v: %v", component, w, !goesOut)
			}
		}
		for _, w := range inside {
			if reaches(policy, w.address, w.port) {
				t.Errorf("%s reaches %v", component, w)
			}
		}
		if reaches(policy, "93.184.216.34", 80) != (component == "chunker") {
			t.Errorf("%s: port 80", component)
		}
		if reaches(policy, "10.96.0.1", 443) != (component == "scheduler") {
			t.Errorf("%s: the API server", component)
		}
		if reaches(policy, "10.9.9.9", 4318) != slices.Contains(services, component) {
			t.Errorf("%s: traces", component)
		}
		if reaches(policy, "10.8.8.8", 6334) != (component == "semantic" || component == "api") {
			t.Errorf("%s: Qdrant", component)
		}
		if reaches(policy, "10.7.7.7", 9000) != (component == "chunker" || component == "api") {
			t.Errorf("%s: uploads", component)
		}
		if serves := len(policy.Spec.Ingress) > 0; serves != slices.Contains(services, component) {
			t.Errorf("%s: who may come in: %v", component, policy.Spec.Ingress)
		}
	}
}

func TestAlertsAndDashboardsAreTheFilesOfTheChart(t *testing.T) {
	t.Parallel()
	all := render.Template(t, production...)
	rule := all.Kind("PrometheusRule")[0]
	groups, _, _ := unstructured.NestedSlice(rule.Object, "spec", "groups")
	if len(groups) == 0 {
		t.Error("there are no alerts")
	}
	text, _ := json.Marshal(groups)
	if n := strings.Count(string(text), "https://github.com/echomind/sync/blob/main/docs/runbooks/"); n == 0 || n != strings.Count(string(text), "docs/runbooks/") {
		t.Errorf("%d links to runbooks: %.300s", n, text)
	}
	files, err := filepath.Glob(filepath.Join(render.Chart(), "files", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		board := render.Find[corev1.ConfigMap](t, all, "ConfigMap", "e-echomind-dashboard-"+strings.TrimSuffix(name, ".json"))
		if strings.TrimSpace(board.Data[name]) != strings.TrimSpace(string(want)) || board.Labels["grafana_dashboard"] != "1" || !json.Valid(want) {
			t.Errorf("%s: labels %v", name, board.Labels)
		}
	}
	monitor := all.Kind("ServiceMonitor")[0]
	selector, _, _ := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	for _, service := range services {
		labels := render.Find[corev1.Service](t, all, "Service", "e-echomind-"+service).Labels
		for key, value := range selector {
			if labels[key] != value {
				t.Errorf("%s is not scraped: %v", service, labels)
			}
		}
	}
}

func TestWhatIsGeneratedIsCurrent(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("go", "run", "./generate", "-check", render.Root()).CombinedOutput(); err != nil {
		t.Errorf("%s: run make generate", out)
	}
}

func TestEveryValueHasALineInTheREADME(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(render.Chart(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"devPassword", "common.natsFiles.ca", "scheduler.resources", "networkPolicy.internet.exceptIPv4", "nats.storage", "postgresql.enabled"} {
		if !strings.Contains(string(page), "| `"+value+"` |") {
			t.Errorf("%s has no line", value)
		}
	}
}

func TestAnAllowedRangeIsLetThroughToTheChunkerAlone(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, `chunker.env.CHUNKER_ALLOW_CIDRS=10.1.0.0/16\, fd00:1::/32`)...)
	for _, component := range services {
		policy := render.Find[networkingv1.NetworkPolicy](t, all, "NetworkPolicy", "e-echomind-"+component)
		for address, port := range map[string]int32{"10.1.2.3": 443, "fd00:1::7": 80} {
			if reaches(policy, address, port) != (component == "chunker") {
				t.Errorf("%s reaches %s: %v", component, address, component != "chunker")
			}
		}
		if reaches(policy, "10.2.0.1", 443) || reaches(policy, "10.1.2.3", 5432) {
			t.Errorf("%s reaches what no range, or no port, lets through", component)
		}
	}
}

func TestWebhooksReachTheInternetAndAllowedRangesByThePortsThatAreOpenedForTheAPI(t *testing.T) {
	t.Parallel()
	closed := render.Template(t, with(production, `api.env.API_WEBHOOK_ALLOW_CIDRS=10.1.0.0/16`)...)
	opened := render.Template(t, with(production, `api.env.API_WEBHOOK_ALLOW_CIDRS=10.1.0.0/16`, "networkPolicy.internet.ports.api[0]=443")...)
	for _, component := range services {
		policy := render.Find[networkingv1.NetworkPolicy](t, opened, "NetworkPolicy", "e-echomind-"+component)
		if reaches(policy, "10.1.2.3", 443) != (component == "api") || reaches(policy, "10.2.0.1", 443) {
			t.Errorf("%s: %v", component, policy.Spec)
		}
	}
	for _, address := range []string{"93.184.216.34", "10.1.2.3"} {
		if reaches(render.Find[networkingv1.NetworkPolicy](t, closed, "NetworkPolicy", "e-echomind-api"), address, 443) {
			t.Errorf("the API reaches %s where no port is opened", address)
		}
		if !reaches(render.Find[networkingv1.NetworkPolicy](t, opened, "NetworkPolicy", "e-echomind-api"), address, 443) {
			t.Errorf("the API does not reach %s", address)
		}
	}
}
