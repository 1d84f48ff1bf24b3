package console_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fits holds what people are shown to the width of a terminal.
func fits(t *testing.T, shown string) {
	t.Helper()
	for _, line := range strings.Split(shown, "\n") {
		require.LessOrEqual(t, len([]rune(line)), 80, line)
	}
}

func TestADocumentIsShownByItsTitleAndWherePeopleFindIt(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add("--refresh", "manual")
	u.exec(`INSERT INTO documents (connector_id, source_id, title, url, status, config_version) VALUES
		(1, '01ABCOPAQUE', 'Plan', 'https://example.org/Documents/Plan.docx', 'stored', 1),
		(1, 'notes/today.md', 'Today', 'file:///srv/docs/notes/today.md', 'stored', 1)`)
	shown := u.succeed("documents", "1")
	require.Regexp(t, `(?m)^Plan +https://example.org/Documents/Plan.docx +stored`, shown)
	require.Regexp(t, `(?m)^Today +notes/today.md +stored`, shown)
	require.NotContains(t, shown, "OPAQUE")
	require.Contains(t, u.succeed("documents", "1", "-o", "wide"), "01ABCOPAQUE", "what --after and the ledger go by")
	fits(t, shown)
}

// Documents that failed in an earlier run are said wherever the connector is, with the command that lists them.
func TestWhatIsStillFailedIsShownEverywhere(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	u.add("--refresh", "manual")
	u.verdicts()
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, chunk_count, config_version)
		SELECT 1, 'huge ' || i, 'failed', 'file too large: ' || 20000000 + i || ' bytes', 0, 1 FROM generate_series(1, 3) i`)
	u.exec(`INSERT INTO documents (connector_id, source_id, status, error, chunk_count, config_version) VALUES
		(1, 'a', 'failed', 'GET https://example.org/a: 403 Forbidden', 0, 1), (1, 'b', 'failed', 'GET https://example.org/b: 403 Forbidden', 0, 1),
		(2, 'of another', 'failed', 'x', 0, 1), (1, 'stored', 'stored', NULL, 4, 1)`)
	const hint = "5 documents are failed; `echomind documents 1 --failed` lists what failed:"
	for _, command := range []string{"runs 1", "why 1"} {
		shown := u.succeed(strings.Fields(command)...)
		require.Contains(t, shown, hint, command)
		require.Contains(t, shown, "3 × file too large: 20000001 bytes", command)
		require.Contains(t, shown, "2 × GET https://example.org/a: 403 Forbidden", command)
	}
	listed := u.succeed("connectors", "list")
	require.Regexp(t, `(?m)^1 .* 1 +5$`, listed)
	require.Contains(t, listed, "`echomind documents ID --failed`")
	fits(t, listed)
	for _, c := range []map[string]any{u.array("connectors", "list")[0], u.object("connectors", "get", "1")} {
		require.InDelta(t, 5, c["documents_failed"], 0)
		require.InDelta(t, 1, c["documents"], 0)
	}
	failed, ok := u.object("why", "1")["failed"].(map[string]any)
	require.True(t, ok)
	require.InDelta(t, 5, failed["documents"], 0)
	require.Len(t, failed["reasons"], 2)
}
