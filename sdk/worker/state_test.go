//go:build !race

package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/testonly/movestest"
)

type cursor struct {
	Delta string            `json:"delta"`
	Page  int               `json:"page"`
	Seen  map[string]bool   `json:"seen,omitempty"`
	Big   int64             `json:"big,string"`
	Tags  []string          `json:"tags,omitempty"`
	Extra map[string]string `json:"extra,omitempty"`
}

func TestTheStateMakesTheRoundTrip(t *testing.T) {
	f := newFixture(t)
	want := cursor{
		Delta: "https://h/?a=1&b=<2>\u2028", Page: 7, Seen: map[string]bool{"x": true}, Big: 1<<62 + 1,
		Tags: []string{`literally \u0000`, "ü", ""},
	}
	c := f.inside(func(_ context.Context, run *worker.Run) error { return run.SetState(want) })
	skipped := f.one(`SELECT state::text FROM connectors WHERE id = $1`, c.id) // as Postgres keeps and gives it
	c = f.inside(func(ctx context.Context, run *worker.Run) error {
		return errors.Join(run.Put(ctx, note(1)), run.SetState(want))
	})
	data, err := wire.JSON(f.whole(c, 1)[0].GetCompleted().NewState)
	require.NoError(t, err)
	completed := f.one(`SELECT $1::jsonb::text`, data)

	var got, untouched cursor
	for _, stored := range []string{skipped, completed} {
		var kept map[string]any
		require.NoError(t, json.Unmarshal([]byte(stored), &kept))
		got = cursor{}
		f.inside(func(_ context.Context, run *worker.Run) error { return run.State(&got) }, with(nil, kept))
		require.Equal(t, want, got)
	}
	untouched.Page = 3
	f.inside(func(_ context.Context, run *worker.Run) error { return run.State(&untouched) })
	require.Equal(t, 3, untouched.Page, "an empty state changes nothing")
}

func TestAStateThatPostgresWouldRefuseIsRefusedAtOnce(t *testing.T) {
	f := newFixture(t)
	pairs, exponents, control := map[string]string{}, []float64{}, map[string]string{"x": strings.Repeat("\x01", 12_000)}
	for i := range 5000 { // 55 kB of JSON as Go writes it, 65 kB as Postgres does
		pairs[string(rune('a'+i%26))+strings.Repeat("k", 3)+string(rune(0x4e00+i))] = ""
	}
	for range 300 {
		exponents = append(exponents, 1e300)
	}
	for name, state := range map[string]any{
		"too long":     map[string]string{"x": strings.Repeat("x", worker.MaxStateBytes)},
		"spaces":       pairs,
		"exponents":    map[string]any{"x": exponents},
		"control":      control,
		"NUL in text":  map[string]string{"x": "a\x00"},
		"NUL in a key": map[string]string{"a\x00": "x"},
		"no object":    []int{1},
	} {
		var err error
		c := f.inside(func(_ context.Context, run *worker.Run) error {
			err = run.SetState(state)
			return nil
		})
		require.Error(t, err, name)
		f.is(c, `verdict = 'skipped' AND state = '{}'`)
	}
}

func TestAStateThatIsTakenFitsInTheDatabase(t *testing.T) {
	f := newFixture(t)
	state := map[string]any{"text": "ü\n\"\\\u2028", "list": []any{1, 2.5, true, nil}, "fill": ""}
	for step := 1 << 15; step > 0; step /= 2 { // the longest that is taken
		longer := map[string]any{}
		for k, v := range state {
			longer[k] = v
		}
		longer["fill"] = state["fill"].(string) + strings.Repeat("é", step)
		taken := false
		c := f.inside(func(ctx context.Context, run *worker.Run) error {
			taken = run.SetState(longer) == nil
			return run.Put(ctx, note(1))
		})
		if taken {
			state = longer
			data, err := wire.JSON(f.sent(c)[0].GetCompleted().NewState)
			require.NoError(t, err)
			movestest.Force(t, f.pool, `UPDATE connectors SET state = $2 WHERE id = $1`, c.id, data)
			f.exec(`UPDATE open_runs SET new_state = $2 WHERE id = $1`, c.session, data)
		}
	}
	require.Greater(t, len(state["fill"].(string)), worker.MaxStateBytes-200)
	c := f.inside(func(_ context.Context, run *worker.Run) error { return run.SetState(state) })
	f.is(c, `verdict = 'skipped' AND state->>'text' IS NOT NULL`)
}

func TestAFieldOfTheWrongTypeIsAPermanentFailureAndAnUnknownOneATransientThatNamesIt(t *testing.T) {
	f := newFixture(t)
	const permanent = `status = 'ERROR' AND next_sync_at IS NULL AND reason = 'permanent failure' AND error_message LIKE '%folder%'`
	for name, c := range map[string]struct {
		config map[string]any
		then   string
	}{
		"of the wrong type":              {map[string]any{"folder": 7}, permanent},
		"of the wrong type, and unknown": {map[string]any{"filter": "x", "folder": 7}, permanent},
		"unknown, beside one that is not": {map[string]any{"folder": "a", "filter": "x"}, `status = 'ERROR' AND due_reason = 'retry'
			AND error_message LIKE '%"filter"%typo%this worker is older than the configuration%'`},
		"unknown, in another": {map[string]any{"inner": map[string]any{"depht": 1}}, `status = 'ERROR' AND due_reason = 'retry'
			AND error_message LIKE '%"depht"%'`},
	} {
		t.Run(name, func(t *testing.T) {
			trip := f.inside(func(_ context.Context, run *worker.Run) error {
				var cfg struct {
					Folder string `json:"folder"`
					Inner  struct {
						Depth int `json:"depth"`
					} `json:"inner"`
				}
				return run.Config(&cfg)
			}, with(c.config, nil))
			f.is(trip, c.then)
		})
	}
}

func TestAConfigurationIsDecoded(t *testing.T) {
	f := newFixture(t)
	var cfg struct {
		Folder string `json:"folder"`
		Depth  int    `json:"depth"`
	}
	f.inside(func(_ context.Context, run *worker.Run) error { return run.Config(&cfg) },
		with(map[string]any{"folder": "a", "depth": 3}, nil))
	require.Equal(t, "a", cfg.Folder)
	require.Equal(t, 3, cfg.Depth)
}

func TestKnownDocumentsAndLinks(t *testing.T) {
	f := newFixture(t)
	c := f.pending()
	other := f.pending()
	movestest.Force(t, f.pool, `UPDATE connectors SET added_version = 0`)
	insert := func(owner trip, id, status, token string, version int64, more string) {
		f.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, content_hash, config_version, links, error, deleted_at)
			VALUES ($1, $2, $3, $4, 'hash', $5, '{l1,l2}', `+more+`)`, owner.id, id, status, token, version)
	}
	insert(c, "stored", "stored", "v1", c.version, "NULL, NULL")
	insert(c, "failed", "failed", "", c.version, "'unreadable', NULL")
	insert(c, "old config", "stored", "v1", c.version-1, "NULL, NULL")
	insert(c, "deleted", "deleted", "", c.version, "NULL, clock_timestamp()")
	insert(c, "partial", "partial", "", 0, "NULL, NULL")
	insert(other, "another's", "stored", "v1", other.version, "NULL, NULL")
	f.exec(`INSERT INTO documents (connector_id, source_id, status, version_token, config_version)
		SELECT $1, 'page/' || i, 'stored', 'v', $2 FROM generate_series(1, 12000) i`, c.id, c.version)
	f.exec(`UPDATE documents SET memo = '{"in":["a","b"]}' WHERE source_id IN ('stored', 'failed', 'old config', 'another''s')`)
	f.exec(`UPDATE documents SET memo = 'null' WHERE source_id = 'page/7'`)
	f.publish(c)
	var known map[string]worker.Known
	links := map[string][]string{}
	f.work(func(ctx context.Context, run *worker.Run) (err error) {
		if known, err = run.Known(ctx); err != nil {
			return err
		}
		for _, id := range []string{"stored", "failed", "deleted", "partial", "another's", "none"} {
			if links[id], err = run.Links(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
	f.settled(c)
	memo := json.RawMessage(`{"in":["a","b"]}`)
	require.Len(t, known, 12003)
	require.Equal(t, worker.Known{VersionToken: "v", Memo: json.RawMessage("null")}, known["page/7"])
	require.Equal(t, worker.Known{VersionToken: "v1", ContentHash: "hash", Memo: memo}, known["stored"])
	require.Equal(t, worker.Known{ContentHash: "hash", Memo: memo}, known["failed"])
	require.Equal(t, worker.Known{}, known["old config"])
	require.Contains(t, known, "old config")
	require.Equal(t, worker.Known{VersionToken: "v"}, known["page/12000"])
	stored := []string{"l1", "l2"}
	require.Equal(t, map[string][]string{
		"stored": stored, "failed": stored, "deleted": nil, "partial": nil, "another's": nil, "none": nil,
	}, links)
}

func TestDeletionsAreAllowedByTheTriggerUntilARunCompletes(t *testing.T) {
	f := newFixture(t)
	const trigger = `SELECT moves.trigger_sync($1, $2)`
	type answer struct {
		allowed bool
		err     error
	}
	answers, begun := make(chan answer, 1), make(chan *worker.Run, 1)
	f.work(func(ctx context.Context, run *worker.Run) error {
		begun <- run
		allowed, err := run.DeletionsAllowed(ctx)
		answers <- answer{allowed, err}
		return err
	})
	syncs := func(c trip) answer {
		t.Helper()
		f.publish(c)
		await(t, "the handler", begun)
		got := await(t, "the answer", answers)
		f.settled(c)
		return got
	}
	again := func(c trip, allow bool) trip {
		t.Helper()
		f.exec(trigger, c.id, allow)
		c.session = movestest.Claim(t, f.pool, c.id)
		return c
	}

	c := f.pending()
	f.exec(trigger, c.id, false)
	require.Equal(t, answer{}, syncs(c))
	require.Equal(t, answer{allowed: true}, syncs(again(c, true)))
	require.Equal(t, answer{}, syncs(again(c, false)), "a run has completed with it")

	published := again(c, false)
	f.exec(trigger, c.id, true)
	require.Equal(t, answer{allowed: true}, syncs(published), "the message knew nothing of it")

	f.exec(`UPDATE connectors SET deletion_guard = false WHERE id = $1`, c.id)
	require.Equal(t, answer{allowed: true}, syncs(again(c, false)))
}

func TestDeletionsAreAllowedToTheRunThatTakesARescuedOnesPlace(t *testing.T) {
	f := newFixture(t)
	handle, begun, letGo := unstoppable(t)
	f.workWith(slots(2), handle)
	c := f.pending()
	f.exec(`SELECT moves.trigger_sync($1, true)`, c.id)
	f.publish(c)
	stale := await(t, "the handler", begun)
	allowed, err := stale.DeletionsAllowed(ctx)
	require.NoError(t, err)
	require.True(t, allowed)
	require.NoError(t, pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE workers SET expires_at = clock_timestamp() - interval '1 s'`); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT run_id FROM moves.rescue((SELECT jsonb_agg(jsonb_build_object('id', id, 'beats', beats))
			FROM workers), '1 hour', 10)`).Scan(&c.session)
	}))
	_, err = stale.DeletionsAllowed(ctx)
	require.ErrorIs(t, err, lifecycle.ErrFenced)
	f.publish(c)
	fresh := await(t, "the handler of the new run", begun)
	allowed, err = fresh.DeletionsAllowed(ctx)
	require.NoError(t, err)
	require.True(t, allowed)
	letGo()
	f.becomes(c, `status = 'ACTIVE' AND verdict = 'skipped' AND deletions_allowed_at IS NULL`)
}
