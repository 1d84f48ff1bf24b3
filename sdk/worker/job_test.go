//go:build !race

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
)

func TestAJobIsCheckedPreparedAndDoneAndItsResultIsInTheLedger(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	f.publish(c, with(map[string]any{"terms": []any{"a", "b", "c"}}, nil))
	jobs(f, worker.Job[[]string]{
		Check: func(_ context.Context, run *worker.JobRun) (bool, string, error) {
			return run.Request().ConnectorId == c.id, "another one's", nil
		},
		Prepare: func(_ context.Context, run *worker.JobRun) ([]string, error) {
			var cfg struct {
				Terms []string `json:"terms"`
			}
			run.Warn("one is odd")
			err := run.Config(&cfg)
			return cfg.Terms, err
		},
		Work: func(_ context.Context, run *worker.JobRun, terms []string) (any, error) {
			run.Progress(int64(len(terms)), 3, "read 3 of 3")
			return map[string]int{"terms": 3}, nil
		},
	})
	f.settled(c)
	f.is(c, `status = 'ACTIVE' AND verdict = 'completed' AND failure_count = 0 AND last_sync_at IS NOT NULL AND next_sync_at > clock_timestamp()`)
	require.Equal(t, `completed | {"terms": 3} | {"one is odd"} | 3 | 3 | read 3 of 3`, f.ledger(c))
	require.Zero(t, f.held(topology.DocumentStream))
}

func TestAJobThatIsNotDueIsSkippedWithTheReasonAndNoFailure(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	f.exec(`UPDATE connectors SET max_retries = 9 WHERE id = $1`, c.id)
	f.publish(c)
	jobs(f, worker.Job[struct{}]{
		Check: func(context.Context, *worker.JobRun) (bool, string, error) {
			return false, "51 of 1000 terms have changed", nil
		},
		Work: func(context.Context, *worker.JobRun, struct{}) (any, error) { panic("it is not due") },
	})
	f.settled(c)
	require.Equal(t, `skipped | 51 of 1000 terms have changed`, f.ledger(c))
	f.is(c, `status = 'ACTIVE' AND failure_count = 0 AND next_sync_at > clock_timestamp()`)
}

func TestAWorkerOfTheOtherKindIsRefusedAtItsStart(t *testing.T) {
	f := newFixture(t)
	nothing := worker.Job[struct{}]{Work: func(context.Context, *worker.JobRun, struct{}) (any, error) { return nil, nil }}
	require.ErrorIs(t, jobsOf(f, nothing).end(), worker.ErrKind)
	f.exec(`UPDATE connector_types SET kind = 'job' WHERE name = 'file'`)
	require.ErrorIs(t, f.work(func(context.Context, *worker.Run) error { return nil }).end(), worker.ErrKind)
}

// brittle is a result that cannot be encoded.
type brittle struct{}

func (brittle) MarshalJSON() ([]byte, error) { panic("no result") }

// Each of these ends a job: Check, Prepare and Work may.
func TestAJobEndsAsItsErrorsSay(t *testing.T) {
	for name, c := range map[string]struct {
		result any
		err    error
		ledger string
	}{
		"fails":       {nil, errors.New("the vocabulary is locked"), `failed | transient failure | the vocabulary is locked | {"it began"} | 1 | begun`},
		"for good":    {nil, worker.Permanent(errors.New("no such provider")), `failed | permanent failure | no such provider | {"it began"} | 1 | begun`},
		"skipped":     {nil, worker.Skipped("nothing to merge"), `skipped | nothing to merge | {"it began"} | 1 | begun`},
		"unsaid":      {nil, worker.Skipped(""), `skipped | there was nothing to do | {"it began"} | 1 | begun`},
		"no result":   {nil, nil, `completed | {"it began"} | 1 | begun`},
		"no object":   {[]int{1}, nil, `completed | {"it began","the result is left out: result must be a JSON object: read a JSON object: json: cannot unmarshal array into Go value of type map[string]interface {}"} | 1 | begun`},
		"too large":   {map[string]string{"a": strings.Repeat("x", worker.MaxResultBytes)}, nil, `completed | {"it began","the result is left out: result has 16395 bytes, more than 16384"} | 1 | begun`},
		"unwritable":  {map[string]any{"a": func() {}}, nil, `completed | {"it began","the result is left out: encode the result: json: unsupported type: func()"} | 1 | begun`},
		"a NUL":       {map[string]string{"a": "b\x00"}, nil, `completed | {"it began","the result is left out: result holds a NUL character, which Postgres cannot store"} | 1 | begun`},
		"no NUL":      {map[string]string{"a": `C:\u0000tmp`}, nil, `completed | {"a": "C:\\u0000tmp"} | {"it began"} | 1 | begun`},
		"panics":      {brittle{}, nil, `completed | {"it began","the result is left out: the handler panicked: no result"} | 1 | begun`},
		"its own raw": {json.RawMessage(`{"n": 7}`), nil, `completed | {"n": 7} | {"it began"} | 1 | begun`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			run := f.triggered()
			jobs(f, worker.Job[struct{}]{Work: func(_ context.Context, run *worker.JobRun, _ struct{}) (any, error) {
				run.Warn("it began")
				run.Progress(1, 0, "begun")
				return c.result, c.err
			}})
			f.settled(run)
			require.Equal(t, c.ledger, f.ledger(run))
		})
	}
}

func TestAJobThatWarnsMuchSaysThatItsResultIsLeftOut(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	jobs(f, worker.Job[struct{}]{Work: func(_ context.Context, run *worker.JobRun, _ struct{}) (any, error) {
		for i := range 200 {
			run.Warn(fmt.Sprint("odd ", i))
		}
		return brittle{}, nil
	}})
	f.settled(c)
	require.Equal(t, "100 odd 98 the result is left out: the handler panicked: no result",
		f.one(`SELECT concat_ws(' ', cardinality(warnings), warnings[99], warnings[100]) FROM runs WHERE id = $1`, c.session))
}

func TestWhatAJobSaysLastIsKeptThoughPostgresAnswersLate(t *testing.T) {
	for verdict, end := range map[string]error{
		`completed | {"n": 10}`: nil, "failed | transient failure": errors.New("row 4711 is broken"), "superseded | postponed": worker.Postponed(time.Minute, nil),
	} {
		t.Run(verdict, func(t *testing.T) {
			f := newFixture(t)
			c := f.triggered()
			held := make(chan func(), 1)
			jobs(f, worker.Job[struct{}]{Work: func(_ context.Context, run *worker.JobRun, _ struct{}) (any, error) {
				held <- f.holdRun(c)
				run.Warn("three of ten were not merged")
				return map[string]int{"n": 10}, end
			}})
			f.says("what a run says of itself is not written down")
			await(t, "the run's row", held)()
			f.settled(c)
			require.Regexp(t, "^"+regexp.QuoteMeta(verdict)+`.* \| \{"three of ten were not merged"\}$`, f.ledger(c))
		})
	}
}

func TestTheProgressOfAJobIsSeenWhileItWorks(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	goOn := make(chan struct{})
	jobs(f, worker.Job[struct{}]{Work: func(ctx context.Context, run *worker.JobRun, _ struct{}) (any, error) {
		for i := range 300 {
			run.Progress(int64(i), 300, "reading")
			run.Warn(strings.Repeat("w", 600))
		}
		select {
		case <-goOn:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	f.becomes(c, `progress_done = 299 AND progress_total = 300 AND progress_text = 'reading' AND cardinality(warnings) = 100 AND length(warnings[100]) = 500`)
	require.NoError(t, lifecycle.New(f.pool).Cancel(ctx, c.session, "cancelled by ada"))
	f.becomes(c, `verdict = 'superseded' AND progress_done = 299`)
	next := f.triggered() // the slot is free, and nothing of the other is its
	close(goOn)
	f.settled(next)
	f.is(next, `verdict = 'completed'`)
}

func TestAJobOfATypeThatStoresDocumentsFailsAndSaysSo(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	r := jobs(f, worker.Job[struct{}]{Work: func(context.Context, *worker.JobRun, struct{}) (any, error) { return nil, nil }})
	f.pulls()
	f.exec(`UPDATE connector_types SET kind = 'source' WHERE name = 'file'`)
	f.publish(c)
	f.settled(c)
	require.NoError(t, r.stop())
	require.Contains(t, f.ledger(c), "file is no type of jobs: its runs store documents")
}

func TestAJobWaitsForPostgresToEnd(t *testing.T) {
	f, server := newPrivateFixture(t)
	c := f.triggered()
	away := make(chan struct{})
	jobs(f, worker.Job[struct{}]{Work: func(context.Context, *worker.JobRun, struct{}) (any, error) {
		err := server.Stop(ctx)
		close(away)
		return map[string]bool{"done": true}, err
	}})
	await(t, "the end of Postgres", away)
	require.NoError(t, server.Restart(ctx))
	f.settled(c)
	require.Equal(t, `completed | {"done": true}`, f.ledger(c))
}

func TestAJobWithoutWorkIsRefused(t *testing.T) {
	t.Parallel()
	_, err := worker.NewJob("file", worker.Job[struct{}]{}, worker.DefaultConfig(), nil, nil)
	require.ErrorContains(t, err, "the job file has no Work")
}
