package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/chunker"
	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/tools/helm/chart/render"
)

// environment is what a container of a component sees: its ConfigMap, and its own variables of its Secret.
func environment(t *testing.T, all render.Objects, component string, container corev1.Container) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, from := range container.EnvFrom {
		for name, value := range render.Find[corev1.ConfigMap](t, all, "ConfigMap", from.ConfigMapRef.Name).Data {
			env[name] = value
		}
	}
	secret := render.Find[corev1.Secret](t, all, "Secret", "e-echomind-"+component)
	for _, e := range container.Env {
		if value, ok := secret.StringData[e.ValueFrom.SecretKeyRef.Key]; ok {
			env[e.Name] = value
		}
	}
	return env
}

// The programs read what the chart writes. No parallel: the environment is the process's.
func TestTheServicesAcceptTheEnvironmentTheChartGivesThem(t *testing.T) {
	all := render.Template(t, with(dev,
		"common.env.WORKER_LEASE_SECONDS=null", "connector.env.WORKER_MAX_IN_FLIGHT_BYTES=16777216", "connector.env.CONNECTOR_GOOGLE_RATE=0.5",
		"scheduler.env.SCHEDULER_LEASE_DURATION=8s", "scheduler.env.SCHEDULER_ENABLED=false", "semantic.env.SEMANTIC_BATCH=7",
		"scheduler.env.SCHEDULER_LOST_GRACE_SECONDS=20", "api.env.API_RATE=2.5", `api.env.API_TRUSTED_PROXIES=10.1.0.0/16\,fd00::/8`)...)
	read := map[string]func() (config.Common, error){
		"scheduler": func() (config.Common, error) { c, err := config.Read[scheduler.Config](); return c.Common, err },
		"chunker":   func() (config.Common, error) { c, err := config.Read[chunker.Config](); return c.Common, err },
		"semantic":  func() (config.Common, error) { c, err := config.Read[semantic.Config](); return c.Common, err },
		"api": func() (config.Common, error) {
			c, err := config.Read[api.Config]()
			if c.Addr != ":8081" || c.HTTPAddr != ":8080" || c.Scheduler.LostGraceSeconds != 20 || c.Rate != 2.5 || !slices.Equal(c.TrustedProxies, []string{"10.1.0.0/16", "fd00::/8"}) {
				t.Errorf("the API reads %+v", c)
			}
			return c.Common, err
		},
		"connector": func() (config.Common, error) {
			c, err := config.Read[connector.Config]()
			if c.Worker.MaxInFlightBytes != 16777216 || c.GoogleRate != 0.5 {
				t.Errorf("numbers arrive as %d and %g", c.Worker.MaxInFlightBytes, c.GoogleRate)
			}
			return c.Common, err
		},
	}
	for service, read := range read {
		t.Run(service, func(t *testing.T) {
			for name, value := range environment(t, all, service, deployment(t, all, service).Spec.Template.Spec.Containers[0]) {
				t.Setenv(name, value)
			}
			common, err := read()
			if err != nil {
				t.Fatal(err)
			}
			if common.NATSUser != service || common.NATSPassword == "" || common.NATSInboxPrefix != "_INBOX_"+service || common.LogFormat != "text" {
				t.Errorf("it reads %+v", common)
			}
		})
	}
}

func TestTheServersOfTheChartExpectThePasswordsThatTheServicesHave(t *testing.T) {
	t.Parallel()
	all := render.Template(t, dev...)
	servers := render.Find[corev1.Secret](t, all, "Secret", "e-dev-servers").StringData
	for _, component := range append(slices.Clone(services), "setup") {
		mine := render.Find[corev1.Secret](t, all, "Secret", "e-echomind-"+component).StringData
		if p := servers["NATS_"+strings.ToUpper(component)+"_PASSWORD"]; p == "" || p != mine["NATS_PASSWORD"] {
			t.Errorf("%s has another password than the server expects", component)
		}
		login, password := component, servers["POSTGRES_"+strings.ToUpper(component)+"_PASSWORD"]
		if component == "setup" {
			login, password = "echomind", servers["POSTGRES_PASSWORD"]
		}
		if got := mine[strings.ToUpper(component)+"_DATABASE_URL"]; password == "" ||
			got != "postgres://"+login+":"+password+"@e-postgresql:5432/echomind?sslmode=disable" {
			t.Errorf("%s logs in to PostgreSQL by %s", component, got)
		}
	}
	passwords := map[string]string{}
	for variable, password := range servers {
		if other := passwords[password]; other != "" {
			t.Errorf("%s and %s are the same", variable, other)
		}
		passwords[password] = variable
	}
	conf, err := os.ReadFile(filepath.Join(render.Chart(), "files", "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if got := render.Find[corev1.ConfigMap](t, all, "ConfigMap", "e-nats").Data["nats.conf"]; strings.TrimSpace(got) != strings.TrimSpace(string(conf)) {
		t.Error("the server's configuration is not files/nats.conf")
	}
}

func TestPostgreSQLOfTheChartMakesTheLoginsThatComposeMakes(t *testing.T) {
	t.Parallel()
	all := render.Template(t, dev...)
	script, err := os.ReadFile(filepath.Join(render.Chart(), "files", "logins.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if got := render.Find[corev1.ConfigMap](t, all, "ConfigMap", "e-postgresql").Data["logins.sh"]; strings.TrimSpace(got) != strings.TrimSpace(string(script)) {
		t.Error("the server's script is not files/logins.sh")
	}
	spec := render.Find[appsv1.StatefulSet](t, all, "StatefulSet", "e-postgresql").Spec.Template.Spec
	given := map[string]string{}
	for _, e := range spec.Containers[0].Env {
		if e.ValueFrom != nil {
			given[e.Name] = e.ValueFrom.SecretKeyRef.Name + " " + e.ValueFrom.SecretKeyRef.Key
		}
	}
	for _, variable := range regexp.MustCompile(`POSTGRES_[A-Z]+_PASSWORD`).FindAllString(string(script), -1) {
		if given[variable] != "e-dev-servers "+variable {
			t.Errorf("%s comes from %q", variable, given[variable])
		}
	}
	volume := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == "e-postgresql" })
	if volume < 0 || *spec.Volumes[volume].ConfigMap.DefaultMode != 0o555 ||
		!slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.Name == spec.Volumes[volume].Name && m.MountPath == "/docker-entrypoint-initdb.d"
		}) {
		t.Errorf("the script is not among what the image runs: %+v", spec.Volumes)
	}
}

func TestAContainerReadsItsOwnVariablesOfASharedSecret(t *testing.T) {
	t.Parallel()
	all := render.Template(t, "--set", "common.existingSecret=one-for-all")
	for _, service := range services {
		var names []string
		for _, e := range deployment(t, all, service).Spec.Template.Spec.Containers[0].Env {
			names = append(names, e.Name)
			key := e.Name
			if strings.HasPrefix(key, "DATABASE_") {
				key = strings.ToUpper(service) + "_" + key
			}
			if ref := e.ValueFrom.SecretKeyRef; ref.Name != "one-for-all" || ref.Key != key || (e.Name == "DATABASE_URL") == (ref.Optional != nil) {
				t.Errorf("%s: %s comes from %v", service, e.Name, ref)
			}
		}
		if slices.Contains(names, "SECRETS_KEY") != (service == "connector" || service == "api") {
			t.Errorf("%s reads %v", service, names)
		}
	}
	if len(all.Kind("Secret")) > 0 {
		t.Error("the chart makes Secrets beside the one that is there")
	}
}

func TestAChangeOfTheConfigurationRollsThePodsItConcerns(t *testing.T) {
	t.Parallel()
	sums := func(sets ...string) map[string]string {
		all, found := render.Template(t, with([]string{"--set", "common.secretEnv.DATABASE_URL=postgres://h/d"}, sets...)...), map[string]string{}
		for _, service := range services {
			a := deployment(t, all, service).Spec.Template.Annotations
			found[service] = a["checksum/config"] + a["checksum/secret"]
		}
		return found
	}
	before := sums()
	for change, rolls := range map[string][]string{
		"chunker.env.CHUNKER_MAX_TOKENS=300":                            {"chunker"},
		"connector.secretEnv.SECRETS_KEY=k,api.secretEnv.SECRETS_KEY=k": {"connector", "api"},
		"scheduler.env.SCHEDULER_CLAIM_BATCH=7":                         {"scheduler"},
		"scheduler.env.SCHEDULER_LOST_GRACE_SECONDS=20":                 {"scheduler", "api"},
		"common.env.LOG_LEVEL=debug":                                    services,
		"common.secretEnv.DATABASE_DIRECT_URL=postgres://h/d":           services,
		"semantic.resources.requests.memory=300Mi":                      nil,
	} {
		after := sums(change)
		for _, service := range services {
			if rolled := before[service] != after[service]; rolled != slices.Contains(rolls, service) {
				t.Errorf("%s: %s rolls: %v", change, service, rolled)
			}
		}
	}
}

func TestNATSsFilesAreMountedWhereTheServiceLooks(t *testing.T) {
	t.Parallel()
	all := render.Template(t, with(production, "chunker.natsFiles.creds.secret=chunker-creds", "chunker.natsFiles.creds.key=nats.creds")...)
	spec := deployment(t, all, "chunker").Spec.Template.Spec
	config := render.Find[corev1.ConfigMap](t, all, "ConfigMap", "e-echomind-chunker").Data
	if config["NATS_CREDS_FILE"] != "/etc/echomind/nats/creds" || config["NATS_CA_FILE"] != "/etc/echomind/nats/ca" || config["NATS_USER"] != "" {
		t.Errorf("configuration %v", config)
	}
	var sources []corev1.VolumeProjection
	for _, v := range spec.Volumes {
		if v.Name == "nats" {
			sources = v.Projected.Sources
		}
	}
	if len(sources) != 2 || sources[0].ConfigMap == nil || sources[0].ConfigMap.Items[0] != (corev1.KeyToPath{Key: "ca.crt", Path: "ca"}) ||
		sources[1].Secret == nil || sources[1].Secret.Name != "chunker-creds" || sources[1].Secret.Items[0] != (corev1.KeyToPath{Key: "nats.creds", Path: "creds"}) {
		t.Errorf("sources %+v", sources)
	}
	if other := render.Find[corev1.ConfigMap](t, all, "ConfigMap", "e-echomind-semantic").Data; other["NATS_CREDS_FILE"] != "" || other["NATS_USER"] != "semantic" {
		t.Errorf("semantic's configuration %v", other)
	}
}

func TestAnExternalSecretIsWhatThePodsRead(t *testing.T) {
	t.Parallel()
	all := render.Template(t, "--set", "common.externalSecret=team/echomind", "--set", "externalSecrets.storeName=vault")
	if found := len(all.Kind("ExternalSecret")); found != 6 || len(all.Kind("Secret")) > 0 {
		t.Errorf("%d ExternalSecrets, %d Secrets", found, len(all.Kind("Secret")))
	}
	for _, e := range deployment(t, all, "semantic").Spec.Template.Spec.Containers[0].Env {
		if e.ValueFrom.SecretKeyRef.Name != "e-echomind-semantic" {
			t.Errorf("%s comes from %v", e.Name, e.ValueFrom.SecretKeyRef)
		}
	}
}

func TestSetupComesBeforeEverythingWithWhatItReads(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"inline":   {"--set", "common.secretEnv.DATABASE_URL=postgres://h/d"},
		"existing": production,
		"external": {"--set", "common.externalSecret=x", "--set", "externalSecrets.storeName=vault"},
	} {
		all := render.Template(t, args...)
		job := render.Find[batchv1.Job](t, all, "Job", "e-echomind-setup")
		if job.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" {
			t.Errorf("%s: the job's hook is %q", name, job.Annotations["helm.sh/hook"])
		}
		for _, o := range all {
			a := o.GetAnnotations()
			if o.GetName() != "e-echomind-setup" || o.GetKind() == "Job" {
				if o.GetKind() != "Job" && a["helm.sh/hook"] != "" && a["helm.sh/hook"] != "test" {
					t.Errorf("%s: %s %s is a hook", name, o.GetKind(), o.GetName())
				}
				continue
			}
			if a["helm.sh/hook"] != "pre-install,pre-upgrade" || a["helm.sh/hook-weight"] != "-10" ||
				a["helm.sh/hook-delete-policy"] != "before-hook-creation,hook-succeeded" {
				t.Errorf("%s: %s has %v", name, o.GetKind(), a)
			}
		}
		spec := job.Spec.Template.Spec
		if got := strings.Join(append(spec.InitContainers[0].Args, spec.Containers[0].Args...), " "); got != "migrate up --wait 2m streams apply --wait 2m" {
			t.Errorf("%s: it does %s", name, got)
		}
	}
}

func TestSetupIsNoHookWhereTheReleaseBringsTheServers(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"postgresql", "nats"} {
		all := render.Template(t, "--set", server+".enabled=true", "--set", "devPassword=x", "--set", "common.secretEnv.DATABASE_URL=postgres://h/d")
		job := render.Find[batchv1.Job](t, all, "Job", "e-echomind-setup-1")
		if len(job.Annotations) > 0 {
			t.Errorf("%s: %v", server, job.Annotations)
		}
		for _, o := range all {
			if o.GetKind() != "Pod" && o.GetAnnotations()["helm.sh/hook"] != "" {
				t.Errorf("%s: %s %s is a hook", server, o.GetKind(), o.GetName())
			}
		}
	}
}
