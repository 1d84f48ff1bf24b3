package examples

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/testkit"
)

// used is what a run of evaluation has used, and what it has passed over, by the slot.
const used = `SELECT concat_ws(', ', s.status, e->>'provider', 'under ' || (e->>'lock'),
		(SELECT 'not ' || string_agg((p->>'provider') || ': ' || (p->>'why'), ', not ' ORDER BY n) FROM jsonb_array_elements(e->'passed_over') WITH ORDINALITY v (p, n)))
	FROM scheduler_runs s JOIN connectors c ON c.id = s.connector_id, jsonb_array_elements(s.resources) e
	WHERE c.name = $1 AND s.slot = $2`

func TestACivicDay(t *testing.T) {
	t.Setenv("WORKER_LEASE_SECONDS", "900") // longer than a step of the clock in which a run is at work
	midnight := time.Date(2026, 2, 6, 0, 0, 0, 0, time.UTC)
	s := simulate(t, "civic", midnight.Add(-10*time.Minute), 6)
	at := func(hour, minute int) time.Time {
		return midnight.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
	}
	for hour := range 24 {
		for _, minute := range []int{0, 15, 25} {
			if hour == 8 && minute == 25 {
				s.exec(`UPDATE civic.providers SET busy = true WHERE name = 'ollama'`)
				s.at(at(hour, minute))
				testkit.Eventually(t, soon, func() error {
					if held := s.text(`SELECT key FROM resource_locks WHERE run_id IS NOT NULL`); held != "ollama:global" {
						return fmt.Errorf("held: %q", held)
					}
					return nil
				})
				continue
			}
			s.at(at(hour, minute))
			s.rests()
		}
		s.at(at(hour, 30))
		if hour == 8 { // documents are at work until the evaluation is over
			testkit.Eventually(t, soon, func() error {
				if status := s.text(`SELECT r.status FROM scheduler_runs r JOIN connectors c ON c.id = r.connector_id
						WHERE c.name = 'evaluation' AND r.slot = $1`, at(8, 30)); status != "completed" {
					return fmt.Errorf("the evaluation is %q", status)
				}
				return nil
			})
			require.Equal(t, "running", s.text(`SELECT r.status FROM scheduler_runs r JOIN connectors c ON c.id = r.connector_id
				WHERE c.name = 'civic_documents' AND r.slot = $1`, at(8, 25)))
			s.exec(`UPDATE civic.providers SET busy = false WHERE name = 'ollama'`)
		}
		s.rests()
	}
	holder := s.text(`SELECT 'run ' || r.id || ' of connector ' || r.connector_id FROM scheduler_runs r JOIN connectors c ON c.id = r.connector_id
		WHERE c.name = 'civic_documents' AND r.slot = $1`, at(8, 25))
	assert.Equal(t, "completed, ollama, under ollama:global", s.text(used, "civic_documents", at(8, 25)))
	assert.Equal(t, "completed, gemini, not ollama: locked by "+holder+" for another 5 min, not openai: 429 Too Many Requests, "+
		"not claude: 429 Too Many Requests, not mistral: 429 Too Many Requests", s.text(used, "evaluation", at(8, 30)))
	assert.Equal(t, "completed, ollama, under ollama:global", s.text(used, "evaluation", at(9, 0)))
	assert.Equal(t, `civic_crawl completed 1
civic_documents completed 12
contributions_analysis completed 1
evaluation completed 30
experiment completed 1
prompt_sync completed 1`, s.text(`SELECT c.name || ' ' || r.status || ' ' || count(*) FROM runs r JOIN connectors c ON c.id = r.connector_id
		WHERE r.slot IS NOT NULL AND r.slot < $1 AND r.status <> 'skipped' GROUP BY c.name, r.status ORDER BY c.name, r.status`, at(24, 0)))
	s.stop()
}
