package tenant

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func TestTheNestedConfigurationIsAsDeepAndAlmostAsLongAsOneMayBe(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, testkit.Database(t, db.Up))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(ctx) })
	add := func(config any) error {
		text, err := json.Marshal(config)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, `INSERT INTO connectors (name, type, user_id, config) VALUES ('deep', 'file', 1, $1)`, text)
		return err
	}
	require.NoError(t, add(map[string]any{"x": nested()}))
	require.ErrorContains(t, add(map[string]any{"x": map[string]any{"x": nested()}}), "connectors_config_depth")
	var size int
	require.NoError(t, conn.QueryRow(ctx, `SELECT octet_length(config::text) FROM connectors`).Scan(&size))
	require.Greater(t, size, 60_000)
}

func TestAParagraphThatIsMissingAndADocumentThatIsNotTheirsAreFound(t *testing.T) {
	t.Parallel()
	l := &lab{others: []*ordinary{{id: 7, texts: map[string][]string{"a.md": {"one two three.", "four five."}}}}}
	first := found{Connector: 7, SourceID: "a.md", Status: "stored", Text: "one two three.\n\nfour"}
	second := found{Connector: 7, SourceID: "a.md", Status: "stored", Text: "three.\n\nfour five."}
	require.Zero(t, l.whole([]found{first, second}).Violated, "chunks overlap")
	require.Equal(t, 1, l.whole([]found{first}).Violated)
	require.Equal(t, 2, l.whole(nil).Violated)
	require.Equal(t, 1, l.whole([]found{first, second, {Connector: 7, SourceID: "b.md", Status: "stored"}}).Violated)
	second.Status = "failed"
	require.Equal(t, 1, l.whole([]found{first, second}).Violated)
}

func TestTheBoundCountsWhereItIsToldTo(t *testing.T) {
	t.Parallel()
	l := &lab{
		stretches: []stretch{
			{name: "quiet", runs: map[string][]run{"": {{took: time.Second}}}},
			{name: "all attacks", runs: map[string][]run{"": {{took: 1500 * time.Millisecond}}}},
		},
		findings: []audit.Finding{{Promise: 1, Checked: 1}},
	}
	l.cfg.Strict = true
	out := &strings.Builder{}
	require.True(t, l.write(out))
	require.Contains(t, out.String(), "1.5 times; the bound is 1.5 times: kept")
	l.stretches[1].runs[""][0].took += time.Second
	require.False(t, l.write(out))
	require.Contains(t, out.String(), "2.5 times; the bound is 1.5 times: NOT KEPT")
	l.cfg.Strict = false
	require.True(t, l.write(out), "it is told all the same")
	l.findings[0].Checked = 0
	require.False(t, l.write(out), "a check that looked at nothing shows nothing")
}

func TestWhatHasToLookAndDoesNotIsKept(t *testing.T) {
	t.Parallel()
	findings := []audit.Finding{{Name: "no run has a key that is full"}, {Name: "one run has a lock", Checked: 1}, {Name: "no slot twice", Violated: 1}, {Name: "caps"}}
	for _, name := range here[:len(here)-1] {
		if name != "caps" {
			findings = append(findings, audit.Finding{Name: name, Checked: 1})
		}
	}
	byName := map[string]audit.Finding{}
	for _, f := range thatLooked(findings) {
		byName[f.Name] = f
	}
	require.Len(t, byName, len(here)+2)
	require.NotContains(t, byName, "no run has a key that is full")
	require.Zero(t, byName["caps"].Checked)
	require.Contains(t, byName[here[len(here)-1]].How, "no such check")
}
