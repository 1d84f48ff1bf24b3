package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/scheduler"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/source"
	"github.com/echomind/sync/testonly/chaos/synthetic"
	"github.com/echomind/sync/testonly/testkit"
)

func TestARealPipelineKeepsEveryPromise(t *testing.T) {
	l := newLab(t)
	l.opts = audit.Options{Caps: map[string]int{"capped": 1}, NeverFail: []string{"capped"}}
	n := 0
	for _, mode := range []string{source.Delta, source.Listing} {
		for _, trouble := range []string{"", source.Unreadable, source.Fail, source.Panic, source.Permanent} {
			l.add("synthetic", source.Config{Seed: int64(n), Documents: 8, Changes: 4, Mode: mode, Trouble: trouble, Every: 1 + n%3})
			l.add("synthetic", source.Config{
				Seed: int64(n), Documents: 8, Changes: 4, Mode: mode, Trouble: trouble, Every: 1 + n%3,
				Milliseconds: 300, Checkpoint: 1 + n%2,
			})
			l.add("capped", source.Config{Seed: int64(n), Documents: 5, Changes: 2, Mode: mode})
			n += 3
		}
	}
	l.add("synthetic", withSeveralParts())
	l.addScheduled("schedule_cron", "* * * * *", source.Config{Seed: 1, Documents: 3, Changes: 2})
	l.addScheduled("refresh_freq_minutes", 1, source.Config{Seed: 2, Documents: 3, Changes: 2})
	l.addRules()
	l.do(`INSERT INTO blackouts (name, calendar, mode, user_id) VALUES ('of_another', 'pauses', 'defer', 99)`)
	l.do(`INSERT INTO run_after (connector_id, upstream_id, accepts) VALUES (6, 3, 'skipped')`) // neither has trouble, nor is disabled or deleted
	n += 4
	l.do(`INSERT INTO concurrency_limits (key, most) VALUES ('shared', 2)`)
	l.do(`UPDATE connectors SET concurrency_keys = ARRAY['shared'] WHERE id % 4 = 0 AND scope <> 'system'`)
	stop := l.run("synthetic", "capped")
	const rounds = 4
	for round := range rounds - 1 {
		l.settle((round + 1) * n)
		l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE status <> 'ERROR' AND scope <> 'system'`)
		l.force(`UPDATE connectors SET next_sync_at = clock_timestamp() WHERE due_reason = 'retry'`)
		l.do(`UPDATE connectors SET trigger_requested_at = clock_timestamp() WHERE status = 'ERROR' AND next_sync_at IS NULL AND scope <> 'system'`)
	}
	l.settle(rounds * n)
	l.do(`UPDATE connectors SET schedule_cron = NULL, refresh_freq_minutes = 0 WHERE scope <> 'system'`)
	l.do(`UPDATE connectors SET config = config || '{"seed": 1000}' WHERE id % 3 = 0 AND scope <> 'system'`)
	l.do(`SELECT moves.disable(id) FROM connectors WHERE id % 3 = 1 AND scope <> 'system'`)
	l.do(`DELETE FROM connectors WHERE id % 9 = 2 AND scope <> 'system'`)
	l.settle(rounds*n + n/3)
	l.swept()
	stop()

	findings, err := audit.Audit(ctx, l.pool, l.opts)
	require.NoError(t, err)
	var table bytes.Buffer
	audit.WriteTable(&table, findings)
	t.Logf("\n%s", &table)
	var names []string
	for _, f := range findings {
		names = append(names, f.Name)
		require.Empty(t, f.Violations, f.Name)
		require.NotZero(t, f.Checked, f.Name)
	}
	require.ElementsMatch(t, checks, names)
	for what, query := range map[string]string{
		"failed for now":             `SELECT count(*) FROM runs WHERE reason = 'transient failure'`,
		"failed for good":            `SELECT count(*) FROM runs WHERE reason = 'permanent failure'`,
		"missed":                     `SELECT count(*) FROM runs WHERE status = 'missed'`,
		"unreadable":                 `SELECT count(*) FROM documents WHERE status = 'failed'`,
		"checkpoints":                `SELECT count(*) FROM chaos.connector_events WHERE state ? 'done'`,
		"documents of several parts": `SELECT count(*) FROM chaos.run_events e JOIN runs r USING (id) WHERE chunks_stored > 32`,
	} {
		var n int
		l.ask(&n, query)
		require.Positive(t, n, what)
	}
}

// withSeveralParts is a source whose first version has a document that takes several messages.
func withSeveralParts() source.Config {
	for cfg := (source.Config{Documents: 8, Changes: 4, Mode: source.Delta}); ; cfg.Seed++ {
		for _, d := range source.List(cfg, 1) {
			if len(d.Text) > topology.MaxMessageBytes {
				return cfg
			}
		}
	}
}

// run plays the whole pipeline against the database until the returned function is called.
func (l *lab) run(types ...string) (stop func()) {
	l.t.Helper()
	broker := testkit.NATS(l.t)
	process := func() connect.Process { return connect.NewProcess(testkit.Logger(l.t)) }
	common := config.Common{
		DatabaseURL: l.url, NATSURL: broker.URL(), DatabaseMaxConns: 4, LogFormat: "text", ShutdownGraceSeconds: 5,
	}
	var s scheduler.Config
	var w synthetic.Config
	var m semantic.Config
	for _, part := range []any{&s, &w, &m} {
		require.NoError(l.t, config.Load(part))
	}
	s.Common, w.Common, m.Common, w.Types = common, common, common, types
	working, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error { return scheduler.Run(working, s, process()) })
	group.Go(func() error { return synthetic.Run(working, w, process()) })
	group.Go(func() error { return semantic.Run(working, m, process()) })
	return func() {
		l.t.Helper()
		cancel()
		require.NoError(l.t, group.Wait())
	}
}

// settle waits until n runs of ours have ended and everything is at rest. System jobs go on as they like.
func (l *lab) settle(n int) {
	l.t.Helper()
	testkit.Eventually(l.t, soon, func() error {
		var ended, restless int
		l.ask(&ended, `SELECT count(*) FROM runs WHERE status <> 'missed' AND connector_id NOT IN (SELECT id FROM connectors WHERE scope = 'system')`)
		l.ask(&restless, `SELECT count(*) FROM connectors
			WHERE scope <> 'system' AND (run_id IS NOT NULL OR next_sync_at <= clock_timestamp() OR needs_plan)`)
		if ended < n || restless > 0 {
			return fmt.Errorf("%d of %d runs have ended, %d things are not at rest", ended, n, restless)
		}
		return nil
	})
}

// swept waits until nothing is left to sweep.
func (l *lab) swept() {
	l.t.Helper()
	testkit.Eventually(l.t, soon, func() error {
		var left int
		l.ask(&left, `SELECT (SELECT count(*) FROM unswept_runs) + (SELECT count(*) FROM deleted_connectors)
			+ (SELECT count(*) FROM unnamed_chunks)`)
		if left > 0 {
			return fmt.Errorf("%d runs, connectors and keys of chunks are to be swept", left)
		}
		return nil
	})
}
