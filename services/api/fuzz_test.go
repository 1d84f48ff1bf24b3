//go:build !race

// One thing after another for minutes: there is no race to find.

package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// schema is as much of a JSON schema as requests are made of.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Enum       []any
	Properties map[string]schema
	Items      *schema
	Required   []string
}

type parameter struct {
	Name, In string
	Schema   schema
}

type operation struct {
	OperationID string
	Parameters  []parameter
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
}

type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

// generator makes requests that are nearly right.
type generator struct {
	*rand.Rand
	document
	ids  []int32
	runs []uuid.UUID
	// wild is the odds against a strange value.
	wild int
}

var strange = []any{
	nil, true, -1, 0, 1 << 31, 1e308, 9007199254740993.0, "", "x", "\x00", "\u202e", "é", "%00", "' OR 1=1 --", "../..", strings.Repeat("x", 300), "9999-12-31T23:59:59Z",
	"0001-01-01T00:00:00Z", []any{}, map[string]any{}, map[string]any{"$ref": "x"}, []any{[]any{[]any{}}}, "REDACTED", "enc:v1:x", "0 3 * * *", "H H * * *", "Europe/Berlin",
}

func (g *generator) value(s schema, depth int) any {
	if name, isRef := strings.CutPrefix(s.Ref, "#/components/schemas/"); isRef {
		s = g.Components.Schemas[name]
	}
	if depth > 4 || g.IntN(g.wild) == 0 {
		return strange[g.IntN(len(strange))]
	}
	if len(s.Enum) > 0 {
		return s.Enum[g.IntN(len(s.Enum))]
	}
	kind, _ := s.Type.(string)
	if several, is := s.Type.([]any); is {
		kind, _ = several[0].(string)
	}
	switch kind {
	case "object":
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) && g.IntN(g.wild) > 0 || g.IntN(g.wild) < 2 || g.IntN(6) == 0 {
				object[name] = g.value(s.Properties[name], depth+1)
			}
		}
		if g.IntN(g.wild) == 0 {
			object["unknown"] = 1
		}
		if len(s.Properties) == 0 {
			object["url"] = g.value(schema{Type: "string"}, depth+1)
		}
		return object
	case "array":
		return []any{g.value(*s.Items, depth+1), g.value(*s.Items, depth+1)}[:g.IntN(3)]
	case "integer":
		return g.IntN(1000)
	case "boolean":
		return g.IntN(2) == 0
	}
	return []string{"web", "google_drive", "word_count", "read", "g", "docs"}[g.IntN(6)]
}

func (g *generator) text(s schema) string {
	switch v := g.value(s, 3).(type) {
	case string:
		return v
	default:
		text, _ := json.Marshal(v)
		return string(text)
	}
}

// request fills an operation in.
func (g *generator) request(path string, of operation) (filled string, body any, headers []string) {
	g.wild = []int{3, 20, 1000}[g.IntN(3)]
	query := url.Values{}
	for _, p := range of.Parameters {
		text := g.text(p.Schema)
		switch {
		case p.In == "path" && g.IntN(4) > 0 && p.Name == "id":
			text = strconv.Itoa(int(g.ids[g.IntN(len(g.ids))]))
		case p.In == "path" && g.IntN(4) > 0 && p.Name == "seq":
			text = strconv.Itoa(1 + g.IntN(60))
		case p.In == "path" && g.IntN(4) > 0 && p.Name == "name":
			text = []string{"x", "docs", "web", "g"}[g.IntN(4)]
		case p.In == "path" && g.IntN(4) > 0:
			text = g.runs[g.IntN(len(g.runs))].String()
		case p.In == "header" && g.IntN(4) > 0:
			text = "*"
		}
		switch p.In {
		case "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(text))
		case "query":
			if g.IntN(3) == 0 {
				query.Set(p.Name, text)
			}
		case "header":
			headers = append(headers, p.Name, strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return -1
				}
				return r
			}, text))
		}
	}
	if content, has := of.RequestBody.Content["application/json"]; has {
		body = g.value(content.Schema, 0)
		if g.IntN(g.wild) == 0 {
			text, _ := json.Marshal(body)
			body = string(text[:g.IntN(len(text)+1)])
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, body, headers
}

// API_FUZZ=2000 makes so many requests of each operation.
func TestNoRequestMakesADefectOfOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`INSERT INTO connector_types (name, kind) VALUES ('word_count', 'job')`)
	w.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('docs', 'UTC', '[]'), ('web', 'UTC', '[]')`)
	w.exec(`INSERT INTO blackouts (name, calendar, mode) VALUES ('docs', 'docs', 'skip'), ('web', 'web', 'defer')`)
	text, err := api.OpenAPI()
	require.NoError(t, err)
	seed := uint64(1)
	g := &generator{Rand: rand.New(rand.NewPCG(seed, seed))}
	require.NoError(t, json.Unmarshal(text, &g.document))
	times := 40
	if given, err := strconv.Atoi(os.Getenv("API_FUZZ")); err == nil {
		times = given
	}
	for range 20 {
		for _, of := range []identity.Ownership{{UserID: 7, Scope: "user"}, {UserID: 8, Scope: "org"}, {UserID: 7, Scope: "user", System: true}} {
			c := w.something(of)
			g.ids, g.runs = append(g.ids, c.id), append(g.runs, c.run)
		}
	}
	const hunted = "hunter2-of-a-source"
	movestest.Force(w, w.conn, `UPDATE connectors SET config = config || jsonb_build_object('password', $1::text), status_message = 'https://bob:' || $1 || '@h.example/ answered 503'`, hunted)
	for range 80 { // those that may be revoked
		w.as(7, identity.User)
	}
	js := testkit.JetStream(t, testkit.NATS(t).URL())
	require.NoError(t, streams.EnsureStreams(t.Context(), js))
	withLetters := w.replica(func(c *api.Config) { c.NATSURL = js.Conn().ConnectedUrl() })
	for n := range 60 {
		broadcast{w, js}.letter(topology.DocumentSubject, partOf(g.ids[n], "docs"))
	}
	me, admin := w.as(7, identity.User), w.as(7, identity.Superadmin)
	answers := map[int]int{}
	for _, path := range slices.Sorted(maps.Keys(g.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(g.Paths[path])) {
			of := g.Paths[path][method]
			for n := range times {
				filled, body, headers := g.request(path, of)
				by := me
				if n%2 == 0 {
					by = admin
				}
				if strings.HasPrefix(path, "/api/v1/deadletters") {
					by.world = withLetters
				}
				r := by.do(strings.ToUpper(method), strings.TrimPrefix(filled, "/api/v1"), body, headers...)
				answers[r.status]++
				if strings.HasSuffix(path, "/events") && r.status == http.StatusServiceUnavailable { // NATS, which has them, is away here, or too many watch
					r.status = 0
				}
				require.Less(t, r.status, 500, "%s %s %v %v: %s", method, filled, headers, body, r.text)
				for _, hidden := range []string{"goroutine ", ".go:", "SQLSTATE", by.token, hunted} {
					require.NotContains(t, r.text, hidden, "%s %s", method, filled)
				}
			}
		}
	}
	require.Greater(t, answers[200], 0, fmt.Sprint(answers))
	t.Log(answers)
}
