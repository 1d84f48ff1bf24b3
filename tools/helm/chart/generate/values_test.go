package main

import (
	"regexp"
	"testing"
)

// A value without a comment would be missing in the README and nobody would notice.
func TestEveryValueIsDescribed(t *testing.T) {
	chart := "../../../../helm/echomind/"
	for _, file := range []string{"values.yaml", "charts/nats/values.yaml", "charts/postgresql/values.yaml"} {
		values, err := readValues(chart + file)
		if err != nil {
			t.Fatal(err)
		}
		var look func(*value)
		look = func(v *value) {
			if v.meaning == "" && len(v.keys) == 0 {
				t.Errorf("%s: %s has no comment that begins with two dashes", file, v.path)
			}
			if v.meaning == "" {
				for _, k := range v.keys {
					look(k)
				}
			}
		}
		look(values)
	}
}

// A variable that looks like a secret must come from a Secret.
func TestWhatLooksLikeASecretIsOne(t *testing.T) {
	for _, component := range append([]string{"common"}, components...) {
		for _, v := range variables(component) {
			if looksSecret.MatchString(v.name) && !secret.MatchString(v.name) && !ofTheChart[v.name] && !harmless[v.name] {
				t.Errorf("%s: %s would stand in a ConfigMap", component, v.name)
			}
		}
	}
}

var looksSecret = regexp.MustCompile(`PASSWORD|SECRET|TOKEN|KEY|CREDS|DATABASE_.*URL`)

var harmless = map[string]bool{
	"CHUNKER_MAX_TOKENS": true, "CONNECTOR_MAX_TOKENS": true, // of text
	"OTEL_EXPORTER_OTLP_CLIENT_KEY": true, "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY": true, // a file's name
	"CONNECTOR_GOOGLE_TOKEN_URL": true, "SECRETS_KEY_FILE": true, // where one is
}
