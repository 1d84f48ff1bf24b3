// Package audit holds the promises against the whole history of a run of the harness, and against what is left
// at its end.
//
// Install makes the database remember every move. Audit is called when everything is at rest. Each of its findings says
// how much it has looked at: a check that looked at nothing has shown nothing.
package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// maxViolations bounds how many of a finding's violations are spelled out.
const maxViolations = 20

// Finding is what came of one check.
type Finding struct {
	// Promise is the one it belongs to, 1 to 6.
	Promise int
	Name    string
	// How says in one line what was looked at.
	How string
	// Checked is how many things were looked at.
	Checked int
	// Violations are the first of them; Violated is how many there were.
	Violations []string
	Violated   int
}

func (f *Finding) violated(format string, args ...any) {
	if f.Violated++; f.Violated <= maxViolations {
		f.Violations = append(f.Violations, fmt.Sprintf(format, args...))
	}
}

// Options say what the harness has done, and so what may have come of it.
type Options struct {
	// WorkersLost: workers were killed, frozen or cut off, so that runs may have failed as "worker lost".
	WorkersLost bool
	// MessagesLost: streams were purged or wiped, so that runs may have failed as "lost in transit".
	MessagesLost bool
	// Forged: messages lied about whose they are, so that the runs whose they were not may have failed.
	Forged bool
	// CommitsLost: Postgres forgot what it had committed, so that a worker may not know of a run that is its own again.
	CommitsLost bool
	// ClockStepped is how far at most Postgres's clock was set back, so that what happened later may look earlier; 0 = it was not.
	ClockStepped time.Duration
	// FailAtWill are connectors whose sources do whatever they like. Their runs fail for that, and not as a worker or a message is
	// lost.
	FailAtWill map[int32]bool
	// NeverFail are connector types whose runs may not fail at all.
	NeverFail []string
	// Caps are the types with a cap, and how many of each may be in flight.
	Caps map[string]int
	// Foreign are the types of a subscriber that keeps no lease and stores what it fetches itself, and makes mistakes;
	// ForeignTimeout is how long it may have a run.
	Foreign        []string
	ForeignTimeout time.Duration
}

// Audit looks at everything. An error says that it could not look.
func Audit(ctx context.Context, pool *pgxpool.Pool, opts Options) ([]Finding, error) {
	h, err := load(ctx, pool)
	if err != nil {
		return nil, err
	}
	h.forged = opts.Forged
	findings := []Finding{
		h.asked(), h.workersTakeTurns(opts), h.fence(), h.caps(opts),
		h.ownFailures(opts), h.neverFail(opts), h.disabled(),
		h.oneVerdict(), h.claims(), h.plans(), h.flights(), h.cronSlots(), h.passedSlots(opts), h.slotsOnce(), h.passedOver(opts), h.rulesKept(opts), h.inBlackout(opts),
		h.cursor(), h.checkpoints(),
	}
	for _, look := range []func(context.Context, *pgxpool.Pool) (Finding, error){
		rest, chains, opts.counted, h.documents, leftovers, h.locks, h.keys,
	} {
		f, err := look(ctx, pool)
		if err != nil {
			return nil, err
		}
		findings = append(findings, f)
	}
	sortByPromise(findings)
	return findings, nil
}
