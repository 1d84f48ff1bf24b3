package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

var errThrottled = errors.New("429")

func throttles(context.Context) error { return errThrottled }

func answers(context.Context) error { return nil }

// resources is what the ledger has of a run, without its times and epochs.
func (f *fixture) resources(c trip) string {
	f.t.Helper()
	return f.one(`SELECT (SELECT string_agg((e - 'at' - 'epoch')::text, E'\n') FROM jsonb_array_elements(r.resources) e) FROM scheduler_runs r WHERE id = $1`, c.session)
}

func TestARunUsesTheFirstProviderThatIsFreeAndAnswersAndTheLedgerSaysWhyNotTheOthers(t *testing.T) {
	f := newFixture(t)
	held := f.holds(gpu, 4*time.Minute)
	used := make(chan *worker.Chosen, 1)
	c := f.triggered()
	r := f.work(func(ctx context.Context, run *worker.Run) error {
		chosen, err := worker.Failover(ctx, run,
			worker.Provider{Name: "ollama", Lock: gpu, Probe: answers},
			worker.Provider{Name: "openai", Lock: "openai:us", Probe: throttles},
			worker.Provider{Name: "gemini", Lock: "gemini:eu", TTL: time.Second, Probe: answers},
			worker.Provider{Name: "mistral", Probe: func(context.Context) error { return errors.New("it was asked") }})
		if err != nil {
			return err
		}
		if one := f.one(`SELECT string_agg(key, ' ' ORDER BY key) FROM resource_locks`); one != "gemini:eu "+gpu {
			return errors.New(one)
		}
		used <- chosen
		return nil
	})
	chosen := await(t, "the choice", used)
	require.Equal(t, "gemini", chosen.Name)
	f.settled(c)
	require.NoError(t, r.stop())
	require.JSONEq(t, fmt.Sprintf(`{"provider": "gemini", "lock": "gemini:eu", "passed_over": [
		{"provider": "ollama", "why": "locked by run %s of connector %d for another 4 min"}, {"provider": "openai", "why": "429"}]}`,
		held.session, held.id), f.resources(c))
	require.Equal(t, fmt.Sprint(chosen.Lock.Epoch()), f.one(`SELECT resources->0->>'epoch' FROM runs WHERE id = $1`, c.session))
	require.Equal(t, "1", f.value("worker_provider_choices_total"))
	held.free()
}

func TestAProviderThatNeedsNoLockHasNone(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		chosen, err := worker.Failover(ctx, run, worker.Provider{Name: "hash"})
		if err == nil {
			chosen.Free()
			err = ctx.Err()
		}
		if err == nil && chosen.Lock != nil {
			err = errors.New("it has a lock")
		}
		return err
	})
	require.JSONEq(t, `{"provider": "hash", "lock": null, "passed_over": []}`, f.resources(c))
}

func TestARunWhoseProvidersAllWaitIsPutOffUntilTheFirstOfThemMayBeFree(t *testing.T) {
	f := newFixture(t)
	held := f.holds(gpu, 4*time.Minute)
	c := f.triggered()
	r := f.work(func(ctx context.Context, run *worker.Run) error {
		_, err := worker.Failover(ctx, run,
			worker.Provider{Name: "openai", Probe: func(context.Context) error { return worker.Postponed(time.Hour, errThrottled) }},
			worker.Provider{Name: "ollama", Lock: gpu})
		return err
	})
	f.settled(c)
	require.NoError(t, r.stop())
	f.is(c, `status = 'ACTIVE' AND due_reason = 'wait' AND failure_count = 0 AND status_message LIKE 'connector % has lock ollama:global'
		AND next_sync_at BETWEEN clock_timestamp() + interval '3 minutes' AND clock_timestamp() + interval '4 minutes'`)
	require.Contains(t, f.resources(c), `"provider": null`)
	held.free()
}

func TestARunFailsWhereNoProviderIsWorthAWait(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		_, err := worker.Failover(ctx, run, worker.Provider{Name: "ollama", Probe: func(context.Context) error { return errors.New("no answer") }},
			worker.Provider{Name: "openai", Lock: "openai:us", Probe: throttles})
		if !errors.Is(err, worker.ErrNoProvider) || f.locks() != "0 held, 0 wait" {
			return errors.New("not that")
		}
		return err
	})
	f.is(c, `status = 'ERROR' AND failure_count = 1 AND error_message = 'no provider can be used now: ollama: no answer; openai: 429'`)
}

func TestARunIsPutOffWhereOneProviderIsLockedWhateverIsWrongWithTheOthers(t *testing.T) {
	f := newFixture(t)
	held := f.holds(gpu, 4*time.Minute)
	c := f.triggered()
	r := f.work(func(ctx context.Context, run *worker.Run) error {
		_, err := worker.Failover(ctx, run, worker.Provider{Name: "ollama", Lock: gpu},
			worker.Provider{Name: "openai", Lock: "openai:us", Probe: throttles})
		if !errors.Is(err, worker.ErrNoProvider) || f.locks() != "1 held, 0 wait" {
			return errors.New("not that")
		}
		return err
	})
	f.settled(c)
	require.NoError(t, r.stop())
	f.is(c, `status = 'ACTIVE' AND due_reason = 'wait' AND failure_count = 0 AND status_message LIKE 'connector % has lock ollama:global'`)
	require.Contains(t, f.resources(c), "429")
	held.free()
}

func TestAProviderIsNotUsedWhoseLockIsLostWhileItIsAsked(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		chosen, err := worker.Failover(ctx, run, worker.Provider{Name: "ollama", Lock: gpu, TTL: brief, Probe: func(ctx context.Context) error {
			f.exec(`SELECT moves.release_lock($1, NULL, 'ann')`, gpu)
			<-ctx.Done()
			return nil
		}}, worker.Provider{Name: "cpu"})
		if err == nil && chosen.Name != "cpu" {
			err = errors.New(chosen.Name)
		}
		return err
	})
	f.is(c, `status = 'ACTIVE' AND verdict = 'skipped'`)
	require.Contains(t, f.resources(c), "it was released by ann")
}

func TestWhatFailoverIsGivenIsBounded(t *testing.T) {
	f := newFixture(t)
	c := f.inside(func(ctx context.Context, run *worker.Run) error {
		if _, err := worker.Failover(ctx, run); err == nil {
			return errors.New("of none")
		}
		if _, err := worker.Failover(ctx, run, make([]worker.Provider, 17)...); err == nil {
			return errors.New("of too many")
		}
		if _, err := worker.Failover(ctx, run, worker.Provider{Name: "a", Lock: "b c"}, worker.Provider{Name: "b"}); err == nil {
			return errors.New("of a bad key")
		}
		for _, name := range []string{"", strings.Repeat("n", 65), "a\nb", "a\xff"} {
			if _, err := worker.Failover(ctx, run, worker.Provider{Name: name}); err == nil || !strings.Contains(err.Error(), "its Name must be") {
				return fmt.Errorf("of the name %q: %w", name, err)
			}
		}
		long := func(context.Context) error { return errors.New(strings.Repeat("\"\x01ä\x00", 500)) }
		var all []worker.Provider
		for range 15 {
			all = append(all, worker.Provider{Name: strings.Repeat("n", 64), Probe: long})
		}
		_, err := worker.Failover(ctx, run, append(all, worker.Provider{Name: "last"})...)
		return err
	})
	f.is(c, `status = 'ACTIVE' AND verdict = 'skipped'`)
	require.Contains(t, f.resources(c), `"provider": "last"`)
}

func TestAJobChoosesAmongProvidersAndHoldsALock(t *testing.T) {
	f := newFixture(t)
	c := f.triggered()
	jobs(f, worker.Job[struct{}]{Work: func(ctx context.Context, run *worker.JobRun, _ struct{}) (any, error) {
		chosen, err := worker.Failover(ctx, run, worker.Provider{Name: "ollama", Lock: gpu, Probe: func(context.Context) error { return errors.New("429") }},
			worker.Provider{Name: "gemini"})
		if err != nil {
			return nil, err
		}
		lock, err := run.Acquire(ctx, gpu, time.Minute)
		if err != nil {
			return nil, err
		}
		f.locked("1 held, 0 wait")
		lock.Free()
		return map[string]string{"provider": chosen.Name}, nil
	}})
	f.settled(c)
	require.Equal(t, `completed | {"provider": "gemini"}`, f.ledger(c))
	require.Contains(t, f.one(`SELECT resources::text FROM runs WHERE id = $1`, c.session), "429")
	f.locked("0 held, 0 wait")
}
