package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/chunker"
	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
)

// configs are what each component reads from the environment: the very structs that it is read into.
var configs = map[string][]any{
	"common":    {config.Common{}, worker.Config{}},
	"scheduler": {scheduler.Config{}},
	"connector": {connector.Config{}},
	"chunker":   {chunker.Config{}},
	"semantic":  {semantic.Config{}},
	"api":       {api.Config{}},
	"setup":     {config.Common{}, config.Lookup{}, config.Streams{}},
}

// chosen are the variables whose values the structs do not list.
var chosen = map[string][]any{
	"LOG_FORMAT":                {"json", "text"},
	"OTEL_TRACES_EXPORTER":      {"otlp", "none"},
	"SCHEDULER_LEADER_ELECTION": {"none", "postgres", "kubernetes"},
}

// secret are the variables that come from a Secret. NATS_URL may hold a password, and may stand in either.
var secret = regexp.MustCompile(`^(DATABASE_URL|DATABASE_DIRECT_URL|NATS_URL|NATS_PASSWORD|OTEL_EXPORTER_OTLP_(TRACES_)?HEADERS|SECRETS_KEY|QDRANT_API_KEY|UPLOAD_ACCESS_KEY_ID|UPLOAD_SECRET_ACCESS_KEY|.*_CLIENT_SECRET)$`)

// ofTheChart are the variables that the chart sets itself, from values of their own.
var ofTheChart = map[string]bool{
	"HTTP_ADDR": true, "NATS_CREDS_FILE": true, "NATS_NKEY_FILE": true, "NATS_CA_FILE": true, "NATS_CERT_FILE": true, "NATS_KEY_FILE": true,
	"ECHOMIND_DATA_DIR": true, "API_ADDR": true,
}

type variable struct {
	name string
	kind reflect.Type
}

// variables are those of a component, each once, in the order of the structs.
func variables(component string) []variable {
	var all []variable
	seen := map[string]bool{}
	var walk func(reflect.Type, string)
	walk = func(t reflect.Type, prefix string) {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
			switch {
			case name != "" && name != "-" && !seen[prefix+name]:
				seen[prefix+name] = true
				all = append(all, variable{prefix + name, f.Type})
			case name == "" && f.Type.Kind() == reflect.Struct:
				walk(f.Type, prefix+f.Tag.Get("envPrefix"))
			}
		}
	}
	for _, c := range configs[component] {
		walk(reflect.TypeOf(c), "")
	}
	return all
}

// secretVariables are those of a component that its containers read from its Secret.
func secretVariables(component string) []string {
	var names []string
	for _, v := range variables(component) {
		if secret.MatchString(v.name) {
			names = append(names, v.name)
		}
	}
	return names
}

// environment is the schema of a component's `env` or, of secrets, `secretEnv`.
func environment(component string, secrets bool, meanings map[string]string) schema {
	properties := schema{}
	for _, v := range variables(component) {
		isSecret := secret.MatchString(v.name)
		if ofTheChart[v.name] || isSecret != secrets && v.name != "NATS_URL" {
			continue
		}
		property := schema{"type": []string{"string", "null"}}
		if !secrets {
			property = form(v)
		}
		property["description"] = cmp.Or(meanings[v.name], meanings[strings.Replace(v.name, "_OTLP_TRACES_", "_OTLP_", 1)])
		properties[v.name] = property
	}
	return schema{"type": "object", "additionalProperties": false, "properties": properties}
}

// form is what may be written for a variable: what its field can read, or null, which takes a default of the chart's away.
func form(v variable) schema {
	if values, ok := chosen[v.name]; ok {
		return schema{"enum": append(append([]any{}, values...), nil)}
	}
	if v.name == "API_TRUSTED_PROXIES" || v.name == "API_WEBHOOK_ALLOW_CIDRS" {
		return schema{"type": []string{"string", "null"}, "pattern": `^([0-9a-f.:]+/[0-9]+( *, *[0-9a-f.:]+/[0-9]+)*)?$`}
	}
	switch v.kind {
	case reflect.TypeFor[time.Duration]():
		return schema{"type": []string{"string", "null"}, "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`}
	case reflect.TypeFor[slog.Level]():
		return schema{"enum": []any{"debug", "info", "warn", "error", nil}}
	}
	switch v.kind.Kind() {
	case reflect.Bool:
		return schema{"enum": []any{true, false, "true", "false", nil}}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return schema{"type": []string{"integer", "string", "null"}, "pattern": `^-?[0-9]+$`}
	case reflect.Float64:
		return schema{"type": []string{"number", "string", "null"}, "pattern": `^[0-9]+(\.[0-9]+)?$`}
	}
	return schema{"type": []string{"string", "null"}}
}

// meanings are the lines of the table in docs/configuration.md, by variable.
func meanings(root string) (map[string]string, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "configuration.md"))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| (.*?) \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		if _, told := all[row[1]]; !told {
			all[row[1]] = strings.ReplaceAll(fmt.Sprintf("%s Default: %s.", row[3], row[2]), "`", "")
		}
	}
	return all, nil
}
