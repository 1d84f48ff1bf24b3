package compose

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// readers are the services that read the settings of each section of docs/configuration.md.
var readers = map[string][]string{
	"Every service": programs, "Traces": programs, "Traces: OTLP": programs, "Access to NATS": append([]string{"setup", "echomind"}, programs...),
	"Scheduler": {"scheduler"}, "Scheduler: default intervals": {"scheduler"}, "Scheduler: leader election": {"scheduler"}, "Worker kit": {"chunker", "connector"},
	"Reading": {"chunker", "connector"}, "Accounts at Google and Microsoft": {"connector", "api"},
	"Chunker": {"chunker"}, "Connector": {"connector"}, "Secrets": {"connector", "api", "echomind"}, "Semantic": {"semantic"},
	"Search index": {"semantic", "echomind"}, "echomind, the command line": {"echomind"}, "echomind streams apply": {"setup"},
	"echomind run": nil, "Uploads": {"api", "chunker"}, "API": {"api"}, "API: who signs in elsewhere": {"api"},
}

// ours are the settings that docker-compose.yml decides itself.
var ours = []string{
	"DATABASE_URL", "NATS_URL", "NATS_USER", "NATS_PASSWORD", "NATS_INBOX_PREFIX", "SECRETS_KEY", "CHUNKER_FILE_ROOTS",
	"QDRANT_API_KEY", "SCHEDULER_LEADER_ELECTION", "UPLOAD_URL",
}

// senseless are the settings that nobody is given, and why.
var senseless = map[string]string{
	"DATABASE_DIRECT_URL": "there is no transaction pooler",
	"DATABASE_ROLE":       "each login has its group",
	"NATS_CREDS_FILE":     "NATS's users have passwords", "NATS_NKEY_FILE": "NATS's users have passwords",
	"NATS_CA_FILE": "NATS has no TLS", "NATS_CERT_FILE": "NATS has no TLS", "NATS_KEY_FILE": "NATS has no TLS",
	"OTEL_SERVICE_NAME":                     "all services would have one name",
	"OTEL_EXPORTER_OTLP_CERTIFICATE":        "files of the host are not in the containers",
	"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE": "files of the host are not in the containers", "OTEL_EXPORTER_OTLP_CLIENT_KEY": "files of the host are not in the containers",
	"SCHEDULER_LEASE_NAME": "there is no Kubernetes", "SCHEDULER_LEASE_NAMESPACE": "there is no Kubernetes",
	"SCHEDULER_LEASE_IDENTITY": "there is no Kubernetes", "SCHEDULER_LEASE_DURATION": "there is no Kubernetes",
	"SCHEDULER_LEASE_RENEW_DEADLINE": "there is no Kubernetes", "SCHEDULER_LEASE_RETRY_PERIOD": "there is no Kubernetes",
	"SCHEDULER_KUBECONFIG": "there is no Kubernetes",
	"API_ADDR":             "its image says it, and the port of that is published",
	"SECRETS_KEY_FILE":     ".env holds the keys", "ECHOMIND_DATA_DIR": "of `echomind run`",
}

// A setting that is named without a value is taken from .env, and where it is not there it stays unset. Any other form sets
// it always, and would have to repeat the default.
func TestEverySettingOfAServiceIsTakenFromDotEnv(t *testing.T) {
	var file struct {
		Services map[string]struct{ Environment map[string]*string }
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &file))
	sections := strings.Split(read(t, "docs/configuration.md"), "\n## ")[1:]
	require.Len(t, sections, len(readers))
	named := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|")
	documented := map[string]bool{}
	for _, section := range sections {
		title, _, _ := strings.Cut(section, "\n")
		services, known := readers[title]
		require.True(t, known, "which services read the settings of %q?", title)
		settings := named.FindAllStringSubmatch(section, -1)
		require.NotEmpty(t, settings, title)
		for _, setting := range settings {
			documented[setting[1]] = true
			for _, service := range services {
				value, given := file.Services[service].Environment[setting[1]]
				switch {
				case senseless[setting[1]] != "":
					require.False(t, given, "%s is given %s: %s", service, setting[1], senseless[setting[1]])
				case !slices.Contains(ours, setting[1]):
					require.True(t, given, "%s is not given %s, whatever .env says", service, setting[1])
					require.Nil(t, value, "%s: %s is set also where .env does not set it", service, setting[1])
				case setting[1] != "DATABASE_URL" || service != "setup":
					require.True(t, given && *value != "", "%s is not given %s", service, setting[1])
				}
			}
		}
	}
	for _, setting := range ours {
		require.True(t, documented[setting], setting)
	}
	for setting := range senseless {
		require.True(t, documented[setting], setting)
	}
}
