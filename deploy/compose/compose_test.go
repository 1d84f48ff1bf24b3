// Package compose tests docker-compose.yml and the Dockerfile without an engine; `make test-compose` runs them.
package compose

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/echomind/sync/internal/evidence"
)

type service struct {
	Image       string
	Build       *struct{ Target string }
	Restart     string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	Ports       []string
	Environment map[string]string
	Healthcheck map[string]any
	Volumes     []string
	Networks    []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
	Grace       string                                `yaml:"stop_grace_period"`
	Deploy      struct {
		Resources struct{ Limits map[string]string }
	}
}

// oneShots end when they are done.
var oneShots = []string{"nats-volume", "logins", "migrate", "setup", "echomind"}

// programs are our own services.
var programs = []string{"scheduler", "chunker", "connector", "semantic", "api"}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile("../../" + file)
	require.NoError(t, err)
	return string(data)
}

func services(t *testing.T) map[string]service {
	t.Helper()
	var file struct{ Services map[string]service }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &file))
	require.Greater(t, len(file.Services), 10)
	return file.Services
}

func TestNoPortIsOpenBeyondThisMachine(t *testing.T) {
	ports := 0
	for name, s := range services(t) {
		for _, port := range s.Ports {
			require.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s", name, port)
			ports++
		}
	}
	require.Positive(t, ports)
}

func TestWhoNeedsNoInternetHasNone(t *testing.T) {
	var file struct {
		Networks map[string]struct{ Internal bool }
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &file))
	require.True(t, file.Networks["backend"].Internal)
	all := services(t)
	for _, name := range []string{"logins", "migrate", "setup", "scheduler", "semantic", "echomind"} {
		require.Equal(t, []string{"backend"}, all[name].Networks, name)
	}
}

func TestWhatRunsIsBoundedWatchedAndRestarted(t *testing.T) {
	dockerfile := read(t, "Dockerfile")
	for name, s := range services(t) {
		require.Contains(t, s.SecurityOpt, "no-new-privileges:true", name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.True(t, s.ReadOnly || name == "nats-volume", name)
		require.NotEmpty(t, s.Deploy.Resources.Limits["memory"], name)
		require.NotEmpty(t, s.Deploy.Resources.Limits["cpus"], name)
		if slices.Contains(oneShots, name) {
			continue
		}
		require.Equal(t, "unless-stopped", s.Restart, name)
		if slices.Contains(programs, name) {
			require.Contains(t, dockerfile, "\nENV HTTP_ADDR=:8080\n", "beyond the container's loopback, for Prometheus")
			require.Contains(t, dockerfile, `CMD ["/usr/local/bin/`+name+`", "health"]`)
			require.Equal(t, "${SHUTDOWN_GRACE_SECONDS:-25}s15s", s.Grace, "closing takes up to 10 s more")
			require.Equal(t, "service_completed_successfully", s.DependsOn["setup"].Condition, name)
		} else if name != "jaeger" { // its image has nothing to ask with
			require.NotEmpty(t, s.Healthcheck["test"], name)
		}
	}
}

func TestWhatIsMountedIsAVolumeOfTheFileOrReadOnlyAndThere(t *testing.T) {
	var file struct{ Volumes map[string]any }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &file))
	for name, s := range services(t) {
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(strings.Replace(volume, "${ECHOMIND_FILES:-./docs}", "./docs", 1), ":")
			if !strings.HasPrefix(source, "./") {
				require.Contains(t, file.Volumes, source, "%s: %s", name, volume)
				continue
			}
			require.True(t, strings.HasSuffix(volume, ":ro"), "%s: %s", name, volume)
			_, err := os.Stat("../../" + source)
			require.NoError(t, err, name)
		}
	}
}

func TestEveryImageHasAVersion(t *testing.T) {
	pinned := regexp.MustCompile(`:(v?\d+\.[\w.-]*\d|\d+-bookworm|\d+\.\d+-(alpine|bookworm)|v\d+\.\d+\.\d+-unprivileged|\$\{ECHOMIND_VERSION:-dev)\}?$`)
	for name, s := range services(t) {
		require.Regexp(t, pinned, s.Image, name)
	}
	require.Regexp(t, `(?m)^ARG GO_IMAGE=golang:\d+\.\d+-bookworm$`, read(t, "Dockerfile"))
}

func TestTheAPIIsPublishedOnLoopbackByThePortOfItsImage(t *testing.T) {
	require.Equal(t, []string{"127.0.0.1:${API_PORT:-8080}:8081"}, services(t)["api"].Ports)
	_, target, found := strings.Cut(read(t, "Dockerfile"), "FROM base AS api\n")
	require.True(t, found)
	target, _, _ = strings.Cut(target, "\nFROM ")
	require.Contains(t, target, "\nENV API_ADDR=:8081\nEXPOSE 8081\n")
}

func TestTheAPISeesTheSettingsOfTheSchedulerThatItTells(t *testing.T) {
	all := services(t)
	told := 0
	for field := range reflect.TypeFor[evidence.SchedulerSays]().Fields() {
		name := field.Tag.Get("env")
		require.Contains(t, all["api"].Environment, name)
		require.Equal(t, all["scheduler"].Environment[name], all["api"].Environment[name], name)
		told++
	}
	require.Positive(t, told)
}

func TestPrometheusScrapesEveryProgram(t *testing.T) {
	require.Contains(t, read(t, "deploy/compose/prometheus.yml"), "names: ["+strings.Join(programs, ", ")+"]")
}

func TestDashboardsAskSourcesThatAreProvisioned(t *testing.T) {
	provisioned := read(t, "deploy/compose/grafana/datasources/echomind.yaml")
	dashboards, err := os.ReadDir("../../helm/echomind/files/dashboards")
	require.NoError(t, err)
	require.NotEmpty(t, dashboards)
	asked := regexp.MustCompile(`"query": "([a-z-]+)",\s*"type": "datasource"`)
	for _, dashboard := range dashboards {
		found := asked.FindAllStringSubmatch(read(t, "helm/echomind/files/dashboards/"+dashboard.Name()), -1)
		require.NotEmpty(t, found, dashboard.Name())
		for _, source := range found {
			require.Contains(t, provisioned, "type: "+source[1], dashboard.Name())
		}
	}
}

// secret is the name of a variable that holds one.
var secret = regexp.MustCompile(`PASSWORD|_KEY$|DATABASE_URL`)

func TestNoPasswordIsWrittenDownAndNoneMayBeMissing(t *testing.T) {
	file, script := read(t, "docker-compose.yml"), read(t, "deploy/compose/env.sh")
	for name, s := range services(t) {
		for variable, value := range s.Environment {
			if secret.MatchString(variable) && variable != "UPLOAD_SECRET_ACCESS_KEY" { // a bucket's, which has none where files are kept in a volume
				require.Regexp(t, `\$\{[A-Z_]+(:\?[^}]*)?\}`, value, "%s: %s", name, variable)
			}
		}
	}
	for _, found := range regexp.MustCompile(`\$\{([A-Z_]*(?:PASSWORD|SECRETS_KEY))[:}]`).FindAllStringSubmatch(file, -1) {
		require.Contains(t, script, strings.TrimSuffix(found[1], "_PASSWORD"), "nobody makes %s", found[1])
		require.Contains(t, file, "${"+found[1]+":?", "%s may be missing, and would be empty", found[1])
	}
}

func TestEveryServiceIsToldOnlyWhatItKnows(t *testing.T) {
	known := read(t, "docs/configuration.md")
	for name, s := range services(t) {
		if s.Build == nil && !strings.HasPrefix(s.Image, "echomind/") {
			continue
		}
		for variable := range s.Environment {
			require.Contains(t, known, "| `"+variable+"` |", "%s is told %s", name, variable)
		}
	}
}

func TestEachProgramLogsInAsItself(t *testing.T) {
	all := services(t)
	as := map[string]string{"migrate": "echomind:${POSTGRES_PASSWORD}", "echomind": "console:${POSTGRES_CONSOLE_PASSWORD}"}
	for _, program := range programs {
		as[program] = program + ":${POSTGRES_" + strings.ToUpper(program) + "_PASSWORD}"
	}
	for program, login := range as {
		require.Equal(t, "postgres://"+login+"@postgres:5432/echomind?sslmode=disable", all[program].Environment["DATABASE_URL"])
	}
	grafana := read(t, "deploy/compose/grafana/datasources/echomind.yaml")
	require.Contains(t, grafana, "user: grafana\n")
	require.Contains(t, grafana, "password: $POSTGRES_GRAFANA_PASSWORD ")
	require.Contains(t, all["grafana"].Environment, "POSTGRES_GRAFANA_PASSWORD")
	for login := range logins {
		require.Contains(t, all["logins"].Environment, "POSTGRES_"+strings.ToUpper(login)+"_PASSWORD")
		require.NotContains(t, all["postgres"].Environment, "POSTGRES_"+strings.ToUpper(login)+"_PASSWORD", "a new one would restart the server")
	}
	require.Equal(t, "service_completed_successfully", all["migrate"].DependsOn["logins"].Condition)
}

func TestNATSIsGivenEveryPasswordThatItsConfigurationNames(t *testing.T) {
	given := services(t)["nats"].Environment
	named := regexp.MustCompile(`(?m)^[^#\n]*password: \$([A-Z_]+)`).FindAllStringSubmatch(read(t, "helm/echomind/files/nats.conf"), -1)
	require.Len(t, named, 7)
	for _, variable := range named {
		require.Contains(t, given, variable[1])
	}
}

func TestEveryImageIsATargetOfTheDockerfile(t *testing.T) {
	dockerfile := read(t, "Dockerfile")
	for name, s := range services(t) {
		if s.Build == nil {
			continue
		}
		require.Contains(t, dockerfile, "AS "+s.Build.Target+"\n", name)
		require.True(t, strings.HasPrefix(s.Image, "echomind/"+s.Build.Target+":"), s.Image)
	}
	require.Contains(t, dockerfile, "USER 65532:65532")
}
