// Configdoc prints docs/configuration.md from the Config structs: every field with an env tag, its default and its
// comment. It runs in the root of the repository.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
)

// sections are the structs, in the order of the page.
var sections = []struct{ title, note, file, structName string }{
	{"Every service", "", "internal/config/config.go", "Common"},
	{"Access to NATS", "Read by every service and by the command line. See [nats.md](nats.md).", "internal/config/nats.go", "NATSAccess"},
	{"Traces", "Read by every service. See [tracing.md](tracing.md).", "internal/config/tracing.go", "Tracing"},
	{"Traces: OTLP", "OpenTelemetry has each of these once more, with `OTEL_EXPORTER_OTLP_TRACES_` in front, for traces alone; those go first. " +
		"`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is the whole URL; to the other one `/v1/traces` is added, except for grpc.",
		"internal/config/tracing.go", "OTLP"},
	{"Scheduler", "", "services/scheduler/config.go", "Config"},
	{"Scheduler: default intervals", "The time between two syncs of a new connector for which nobody chose, in minutes. The scheduler that leads writes it into the table " +
		"`refresh_defaults`; the command line, the API, and SQL's `default_refresh('web')` read it there. A type of its own has `echomind types add --default-refresh`.",
		"services/scheduler/refresh.go", "Refresh"},
	{"Scheduler: leader election", "Settings whose names begin with `SCHEDULER_LEASE_`, and `SCHEDULER_KUBECONFIG`, count only where a Kubernetes Lease elects.", "services/scheduler/leader/config.go", "Config"},
	{"Worker kit", "Read by the chunker and by every service that calls `worker.Serve`.", "sdk/worker/config.go", "Config"},
	{"Reading", "Read by the chunker and the connector. See [ADR 21](adr/0021-content-is-read-in-a-child-that-may-die.md).",
		"internal/config/reading.go", "Reading"},
	{"Chunker", "", "services/chunker/config.go", "Config"},
	{"Connector", "", "services/connector/config.go", "Config"},
	{"Accounts at Google and Microsoft", "Read by the connector, by the API, whose page connects accounts, and by `echomind connect`: one application for all three. See [connecting.md](connecting.md).",
		"services/connector/consent/consent.go", "Config"},
	{"Secrets", "Read by the connector and the API, and by the command line where a configuration holds a secret. `echomind run` makes a " +
		"key in its data folder where neither is set and Postgres is its own.", "internal/config/secrets.go", "Secrets"},
	{"Semantic", "", "services/semantic/config.go", "Config"},
	{"API", "See [api.md](api.md). It reads those of the scheduler's settings, too, " +
		"that its answer to why a connector does not run tells: SCHEDULER_MAX_CONCURRENT_SYNCS, SCHEDULER_OWNER_SHARE_PERCENT, " +
		"SCHEDULER_CHECK_INTERVAL_SECONDS, SCHEDULER_WATCH_INTERVAL_SECONDS, SCHEDULER_LOST_GRACE_SECONDS and FOREIGN_SYNC_TIMEOUT.", "services/api/config.go", "Config"},
	{"API: who signs in elsewhere", "By an OpenID Connect issuer's tokens, and by the headers of a proxy. See [api.md](api.md#who-signs-in-elsewhere). Lists have commas between their values.",
		"services/api/internal/signin/config.go", "Config"},
	{"Uploads", "Read by the API and the chunker. See [file.md](file.md#uploaded-files).", "internal/config/uploads.go", "Uploads"},
	{"Search index", "Read by semantic, by the API, and by `echomind search`. See [search.md](search.md).", "internal/config/qdrant.go", "Qdrant"},
	{"echomind, the command line", "Used to find a running stack.", "internal/config/config.go", "Lookup"},
	{"echomind streams apply", "", "internal/config/nats.go", "Streams"},
	{"echomind run", "It reads the services' settings too; these have other defaults there.",
		"internal/config/stack.go", "Stack"},
}

// prefixes are those of the structs whose fields' tags hold only the rest of a name.
var prefixes = map[string]string{"OTLP": "OTEL_EXPORTER_OTLP_"}

func main() {
	fmt.Print(`# Configuration

Everything is configured by the environment. This page is generated from the Config structs by ` + "`make generate`" + `.
`)
	for _, s := range sections {
		fields, err := read(s.file, s.structName)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Printf("\n## %s\n\n", s.title)
		if s.note != "" {
			fmt.Printf("%s\n\n", s.note)
		}
		fmt.Print("| variable | default | meaning |\n|---|---|---|\n")
		for _, f := range fields {
			fmt.Printf("| `%s` | %s | %s |\n", prefixes[s.structName]+f.variable, f.otherwise, f.meaning)
		}
	}
}

type field struct{ variable, otherwise, meaning string }

func read(file, structName string) ([]field, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var fields []field
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != structName {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			fields = append(fields, tagged(s)...)
		}
		return false
	})
	if len(fields) == 0 {
		return nil, fmt.Errorf("%s: struct %s has no field with an env tag", file, structName)
	}
	return fields, nil
}

func tagged(s *ast.StructType) []field {
	var fields []field
	doc := ""
	for _, f := range s.Fields.List {
		if f.Doc != nil {
			doc = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
		if f.Tag == nil || len(f.Names) == 0 {
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		variable := tag.Get("env")
		if variable == "" || variable == "-" {
			continue
		}
		otherwise := "none"
		if v, ok := tag.Lookup("envDefault"); ok {
			otherwise = "`" + v + "`"
		}
		meaning := strings.TrimPrefix(doc, f.Names[0].Name+" ")
		meaning = strings.TrimPrefix(strings.TrimPrefix(meaning, "is "), "are ")
		fields = append(fields, field{variable, otherwise, strings.ReplaceAll(meaning, "|", "\\|")})
	}
	return fields
}
