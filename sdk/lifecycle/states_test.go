//go:build !race

package lifecycle_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/sdk/lifecycle"
)

var arrow = regexp.MustCompile(`(?m)^\s*(\S+) --> (\S+): \S.*$`)

func TestTheDiagramDrawsExactlyTheMoves(t *testing.T) {
	page, err := os.ReadFile("../../docs/states.md")
	require.NoError(t, err)
	_, diagram, found := strings.Cut(string(page), "```mermaid\nstateDiagram-v2\n")
	require.True(t, found, "docs/states.md has no mermaid stateDiagram-v2")
	diagram, _, _ = strings.Cut(diagram, "```")
	drawn := map[lifecycle.Move]bool{}
	for _, m := range arrow.FindAllStringSubmatch(diagram, -1) {
		if m[1] != "[*]" && m[2] != "[*]" {
			drawn[lifecycle.Move{From: lifecycle.Status(m[1]), To: lifecycle.Status(m[2])}] = true
		}
	}
	coded := map[lifecycle.Move]bool{}
	for move := range lifecycle.Moves {
		coded[move] = true
	}
	require.Equal(t, coded, drawn)
}

func TestThePageNamesEveryVerdict(t *testing.T) {
	page, err := os.ReadFile("../../docs/states.md")
	require.NoError(t, err)
	for _, verdict := range lifecycle.Verdicts {
		require.Contains(t, string(page), "`"+string(verdict)+"`")
	}
}

func TestTheDatabaseAllowsExactlyTheMoves(t *testing.T) {
	f := newFixture(t)
	for _, from := range lifecycle.Statuses {
		for _, to := range lifecycle.Statuses {
			_, coded := lifecycle.Moves[lifecycle.Move{From: from, To: to}]
			allowed := one[bool](f, `SELECT moves.allowed($1, $2)`, string(from), string(to))
			require.Equal(t, coded, allowed, "%s to %s", from, to)
		}
	}
}

func TestStatusesAreThoseOfTheContractAndOfTheDatabase(t *testing.T) {
	f := newFixture(t)
	var onTheWire []string
	for _, name := range publicpb.ConnectorStatus_name {
		if name = strings.TrimPrefix(name, "CONNECTOR_STATUS_"); name != "UNSPECIFIED" {
			onTheWire = append(onTheWire, name)
		}
	}
	var statuses, verdicts []string
	for _, s := range lifecycle.Statuses {
		statuses = append(statuses, string(s))
	}
	for _, v := range lifecycle.Verdicts {
		verdicts = append(verdicts, string(v))
	}
	require.ElementsMatch(t, statuses, onTheWire)
	require.ElementsMatch(t, statuses, f.wordsOf("connectors_status_known"))
	// A run that is open has no verdict, and is no row of the ledger's: the view says `running` of it.
	require.ElementsMatch(t, verdicts, append(f.wordsOf("runs_verdict_known"), string(lifecycle.Running)))
}

// wordsOf are the words that a CHECK allows.
func (f *fixture) wordsOf(constraint string) []string {
	f.t.Helper()
	definition := one[string](f, `SELECT DISTINCT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1`, constraint)
	var words []string
	for _, m := range regexp.MustCompile(`'(\w+)'::text`).FindAllStringSubmatch(definition, -1) {
		words = append(words, m[1])
	}
	return words
}
