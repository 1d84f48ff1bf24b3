package audit

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/chaos/source"
)

func (h *history) cursor() Finding {
	f := Finding{
		Promise: 5, Name: "the cursor moves with its run",
		How: "a state changes only as its run completes, by one version; by a checkpoint; or to nothing with a new configuration",
	}
	for _, e := range h.events {
		if !e.StateMoved || e.checkpoint() || h.cut(e) || h.forged && e.lastCheckpoint() {
			continue
		}
		f.Checked++
		r := h.runOf(e.OldRun)
		switch {
		case e.Reconfigured:
			if !e.StateEmpty {
				f.violated("%s has a new configuration and a state that is not empty", e)
			}
		case e.From != "SYNCING" || e.To != "ACTIVE" || r == nil || !r.synced():
			f.violated("%s: the state changed from %v to %v, and no run completed", e, version(e.OldVersion), version(e.Version))
		case h.syntheticOf(r) == nil:
		case e.Version == nil || *e.Version != number(e.OldVersion)+1:
			f.violated("%s: version %v came after version %v", e, version(e.Version), version(e.OldVersion))
		case e.Done != 0:
			f.violated("%s: version %v is complete, and its state says that %d documents of it are", e, version(e.Version), e.Done)
		}
	}
	return f
}

// checkpoint says whether the state moved while its run went on.
func (e *event) checkpoint() bool {
	return e.StateMoved && e.From == "SYNCING" && e.To == "SYNCING" && same(e.OldRun, e.Run)
}

// lastCheckpoint says whether a run has ended with nothing but a checkpoint: a message of it was given up, and nobody can tell
// whose document it carried.
func (e *event) lastCheckpoint() bool {
	return e.StateMoved && e.From == "SYNCING" && e.To == "ACTIVE" && e.Done > 0 && number(e.Version) == number(e.OldVersion)
}

// cut says whether the state moved as a run failed that took too long, or was postponed: by the last checkpoint of what it had sent.
func (h *history) cut(e *event) bool {
	r := h.runOf(e.OldRun)
	return e.StateMoved && e.From == "SYNCING" && !same(e.OldRun, e.Run) && r != nil &&
		(r.verdict == "failed" && r.reason == tooLong || r.verdict == "superseded" && r.reason == string(lifecycle.Postponed))
}

func (h *history) checkpoints() Finding {
	f := Finding{
		Promise: 5, Name: "no checkpoint runs ahead",
		How: "when a state moves by a checkpoint, every document before it is stored as its source had it, and the version stays",
	}
	for _, e := range h.events {
		if !e.checkpoint() && !e.lastCheckpoint() && !h.cut(e) {
			continue
		}
		f.Checked++
		cfg := h.syntheticOf(h.runOf(e.OldRun))
		switch {
		case cfg == nil || cfg.Checkpoint == 0:
			f.violated("%s: the state moved within its run, and its source sets no checkpoints", e)
		case e.Version == nil || *e.Version != number(e.OldVersion):
			f.violated("%s: a checkpoint moved version %v to %v", e, version(e.OldVersion), version(e.Version))
		case e.Done <= e.OldDone:
			f.violated("%s: a checkpoint of %d documents came after one of %d", e, e.Done, e.OldDone)
		default:
			e.passedStored(&f, *cfg)
		}
	}
	return f
}

// passedStored holds what was stored at a checkpoint against what its source had before it.
func (e *event) passedStored(f *Finding, cfg source.Config) {
	passed, ok := source.Passed(cfg, *e.Version, e.Done)
	if !ok {
		f.violated("%s: a checkpoint stands for %d documents, and its source has only %d", e, e.Done, len(passed))
	}
	at := source.At(cfg, *e.Version+1)
	for _, id := range passed {
		want, exists := at[id]
		token, stored := e.Stored[id]
		switch {
		case !exists && stored:
			f.violated("%s: a checkpoint has passed that %s is deleted, and it is not", e, id)
		case exists && !stored:
			f.violated("%s: a checkpoint has passed %s, which is not stored", e, id)
		case exists && (token == nil) != (want.Err != ""), exists && token != nil && *token != want.Token:
			f.violated("%s: a checkpoint has passed %s, whose token is %s, not %q", e, id, text(token), want.Token)
		}
	}
}

// syntheticOf is the configuration of a run; nil where it is of another source.
func (h *history) syntheticOf(r *run) *source.Config {
	if r == nil {
		return nil
	}
	c, _ := h.configOf(r)
	return c.synthetic
}

func number(v *int) int {
	if v == nil {
		return 0
	}
	return *v
}

func text(s *string) string {
	if s == nil {
		return "none"
	}
	return strconv.Quote(*s)
}

func version(v *int) any {
	if v == nil {
		return "none"
	}
	return *v
}

// counted looks into the ledger itself: totals are no part of the history.
func (opts Options) counted(ctx context.Context, pool *pgxpool.Pool) (Finding, error) {
	f := Finding{
		Promise: 5, Name: "complete means all stored",
		How: "a run that completed has stored as many messages as its worker sent; skipped means none that carry a document",
	}
	rows, err := pool.Query(ctx, `SELECT id::text, status, coalesce(total, -1), stored, notes FROM runs
		WHERE status IN ('completed', 'skipped') AND missed_count IS NULL
			AND NOT ((type = ANY(coalesce($1::text[], '{}')) OR type IN (SELECT name FROM connector_types WHERE kind = 'job')) AND total IS NULL AND stored = 0)`, opts.Foreign)
	if err != nil {
		return f, wrap("read the ledger", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, status string
		var total, stored, notes int64
		if err := rows.Scan(&id, &status, &total, &stored, &notes); err != nil {
			return f, wrap("read the ledger", err)
		}
		f.Checked++
		if total != stored || (status == "skipped") != (total == notes) {
			f.violated("run %s is %s with %d of %d messages stored, %d of them without a document", id, status, stored, total, notes)
		}
	}
	return f, wrap("read the ledger", rows.Err())
}
