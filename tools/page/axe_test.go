package page

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/identity"
)

// axe is the program that checks what a page shows, for those who do not see it, or use no mouse.
func axe(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PAGE_AXE")
	require.NotEmpty(t, path, "PAGE_AXE is the path of axe.min.js; make test-page fetches it")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// violations are what axe-core finds wrong with the page that is shown.
func (s *stage) violations(axe string) []string {
	s.Helper()
	// By the browser's own tools, which the page's policy does not bind.
	found, err := chromedp.Run(s.browser, chromedp.Evaluate[string](axe+`;
		axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((v) =>
			v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + (n.any[0]?.message ?? "")).join(" | "))))`, chromedp.EvalAwaitPromise))
	require.NoError(s, err)
	var all []string
	require.NoError(s, json.Unmarshal([]byte(found), &all))
	return all
}

func (s *stage) scheme(name string) {
	s.Helper()
	_, err := chromedp.Call(s.browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	require.NoError(s, err)
}

// furnishMore has what administrators look after.
func (s *stage) furnishMore() {
	s.Helper()
	s.exec(`INSERT INTO calendars (name, time_zone, entries) VALUES ('holidays', 'Europe/Berlin', '[{"name": "New year", "start": "2027-01-01", "rule": "FREQ=YEARLY"}, {"name": "Move", "start": "2027-03-01", "end": "2027-03-05"}]')`)
	s.exec(`INSERT INTO blackouts (name, calendar, mode, type) VALUES ('quiet', 'holidays', 'defer', 'web')`)
	s.exec(`INSERT INTO conditions (name, query) VALUES ('ready', 'SELECT true')`)
	s.exec(`INSERT INTO owner_quotas (user_id, max_connectors) VALUES (7, 10)`)
	s.exec(`INSERT INTO concurrency_limits (key, most) VALUES ('onedrive:contoso', 4)`)
	for _, reason := range []string{"https://handbook.example/1 answered 503", "it has no text", ""} {
		msg := nats.NewMsg("dlq." + topology.DocumentSubject)
		msg.Data = aboutDocument(s, 1)
		msg.Header.Set(topology.HeaderReason, reason)
		_, err := s.js.PublishMsg(s.Context(), msg)
		require.NoError(s, err)
	}
}

// aboutDocument is a message about a document of a source.
func aboutDocument(t require.TestingT, source int32) []byte {
	data, err := proto.Marshal(&internalpb.DocumentProcessRequest{ConnectorId: source, ChunkingSession: uuid.NewString(), Number: 1,
		Body: &internalpb.DocumentProcessRequest_Part{Part: &internalpb.DocumentPart{SourceId: "a.md", FirstNo: 1, Parts: 1}}})
	require.NoError(t, err)
	return data
}

// everyPage are the addresses of all pages, with what they may show.
var everyPage = []string{
	"/", "/?name=nowhere", "/search", "/search?q=lease", "/queue", "/runs", "/problems", "/system", "/operations", "/operations/new?action=disable", "/deadletters", "/deadletters/1", "/deadletters/reasons",
	"/administration", "/administration?owner=7&key=onedrive:contoso", "/audit", "/calendars", "/calendars/holidays", "/blackouts", "/blackouts/quiet", "/conditions", "/conditions/ready",
	"/sources/1", "/sources/1/documents", "/sources/2", "/sources/3", "/sources/5", "/sources/1/schedule?schedule_cron=0+*%2F2+*+*+*", "/sources/add", "/sources/add?kind=teams", "/sources/add?kind=web",
}

func TestEveryPageIsAccessibleInLightAndDark(t *testing.T) {
	s, axe := newStage(t), axe(t)
	s.furnish()
	s.furnishMore()
	var wrong []string
	s.visit("/sign-in")
	for _, scheme := range []string{"light", "dark"} {
		s.scheme(scheme)
		for _, v := range s.violations(axe) {
			wrong = append(wrong, "/sign-in, "+scheme+": "+v)
		}
	}
	s.signIn(1, identity.Superadmin)
	s.do(chromedp.EmulateViewport(1280, 900))
	for _, path := range everyPage {
		s.visit(path)
		for _, scheme := range []string{"light", "dark"} {
			s.scheme(scheme)
			for _, v := range s.violations(axe) {
				wrong = append(wrong, path+", "+scheme+": "+v)
			}
		}
	}
	require.Empty(t, wrong, strings.Join(wrong, "\n"))
	s.nothingWrong()
}
