package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/evidence/internal/dbgen"
	"github.com/echomind/sync/internal/freshness"
)

const (
	schedulerName = "echomind-scheduler"
	idleScheduler = schedulerName + "-off" // one that its configuration has switched off
	semanticName  = "echomind-semantic"
	// Statuses, a verdict and a reason, as sdk/lifecycle has them.
	pending, syncing, inError, disabled = "PENDING", "SYNCING", "ERROR", "DISABLED"
	running                             = "running"
	postponed                           = "postponed"
)

// Explain draws the conclusion.
func Explain(e Evidence) Answer {
	x := explanation{Evidence: e, answer: Answer{
		ConnectorID: e.Connector.ID, Name: e.Connector.Name, Type: e.Connector.Type, Status: e.Connector.Status,
		RunID: e.Connector.RunID, TryID: e.Connector.TryID, WorkerID: e.Connector.WorkerID, Evidence: []string{},
	}}
	isOpen := e.Connector.RunID != nil
	x.asked()
	switch status := e.Connector.Status; {
	case status == pending && isOpen:
		x.pending()
	case status == syncing && isOpen:
		x.syncing()
	case status == pending, status == syncing:
		x.runMissing()
	case status == disabled:
		x.disabled()
	default:
		x.atRest()
	}
	x.policies()
	x.past()
	x.fresh()
	x.failed()
	return x.answer
}

// explanation is an answer in the making.
type explanation struct {
	Evidence
	answer Answer
}

func (x *explanation) conclude(cause Cause, why, next string) {
	x.answer.Cause, x.answer.Why, x.answer.Next = cause, why, next
}

func (x *explanation) fact(format string, args ...any) {
	x.answer.Evidence = append(x.answer.Evidence, fmt.Sprintf(format, args...))
}

// runMissing: somebody has written what only moves write.
func (x *explanation) runMissing() {
	x.fact("run: it has none that is open")
	x.conclude(RunMissing, "it is in flight, and the run that it would be in flight for does not exist", fmt.Sprintf(
		"nothing, until you run `echomind connectors disable %d` and `echomind connectors enable %d`", x.answer.ConnectorID, x.answer.ConnectorID))
}

// fresh says whether what is stored is as fresh as it should be; as a fact only where somebody has said how fresh that is.
func (x *explanation) fresh() {
	c := x.Connector
	x.answer.Freshness = freshness.Of(freshness.Connector{
		FreshWithinMinutes: c.FreshWithinMinutes, LastSyncAt: c.LastSyncAt, SyncedVersion: c.SyncedVersion, ConfigVersion: c.ConfigVersion,
	}, x.Now)
	if c.FreshWithinMinutes != nil {
		x.fact("freshness: %s: %s", x.answer.Freshness.State, x.answer.Freshness.How)
	}
}

// past says what came of the latest runs, and what the failure count stands at.
func (x *explanation) past() {
	c := x.Connector
	if c.FailureCount > 0 {
		x.fact("failures in a row: %d; at %d it is disabled", c.FailureCount, c.MaxRetries)
	}
	if c.TriggerRequestedAt != nil {
		x.fact("triggered %s", clock.Ago(*c.TriggerRequestedAt, x.Now))
	}
	if len(x.Past) == 0 {
		x.fact("no verdict yet: it never ran to an end")
	}
	for i, r := range x.Past {
		name := "last verdict"
		if i > 0 {
			name = "before that"
		}
		x.fact("%s: %s", name, verdict(r, x.Now))
		if i == 1 {
			return
		}
	}
}

// failed says which documents are failed, in whichever run they failed.
func (x *explanation) failed() {
	if x.FailedUnknown != nil {
		x.fact("%v", x.FailedUnknown)
		return
	}
	x.answer.Failed = &x.Failed
	for _, line := range x.Failed.Lines(x.answer.ConnectorID) {
		x.fact("%s", line)
	}
}

// Reason is why a run has its verdict, with the error where there is one, and until when it waits where its source has asked for that.
func Reason(reason, message *string, waitsUntil *time.Time, now time.Time) string {
	why, said := text(reason, ""), text(message, "")
	if why == postponed && waitsUntil != nil {
		said = clock.WaitInZone(said, *waitsUntil, now)
	}
	switch {
	case strings.HasPrefix(said, why): // "worker lost: worker lost: its lease ran out"
		return said
	case said == "":
		return why
	}
	return why + ": " + said
}

func verdict(r dbgen.PastRow, now time.Time) string {
	line := r.Status
	if why := Reason(r.Reason, r.ErrorMessage, r.WaitsUntil, now); why != "" {
		line += " (" + why + ")"
	}
	if r.MissedCount != nil {
		line += fmt.Sprintf(", %s", plural(int64(*r.MissedCount), "slot"))
	}
	if r.CompletedAt != nil {
		line += " " + clock.Ago(*r.CompletedAt, now)
	}
	if r.Total != nil {
		line += fmt.Sprintf(", %d of %d messages stored", r.Stored, *r.Total)
	}
	return line + ", due as " + r.Trigger
}

// schedulerActive is how old the last sign of life of a scheduler that works may be.
func (x *explanation) schedulerActive() time.Duration {
	return max(3*x.Settings.WatchInterval, 15*time.Second)
}

// scheduler says whether one is seen, whether it seems to be idle, and puts down what that is told from.
func (x *explanation) scheduler() (seen, idle bool) {
	for _, s := range x.Services {
		if s.Name == nil || *s.Name != schedulerName {
			continue
		}
		if s.LastActive == nil {
			x.fact("scheduler: connected to Postgres")
			return true, false
		}
		idle = x.Now.Sub(*s.LastActive) > x.schedulerActive()
		x.fact("scheduler: connected to Postgres, last heard of %s", clock.Ago(*s.LastActive, x.Now))
		return true, idle
	}
	if x.Connector.DispatchedSince {
		x.fact("scheduler: its connection is not seen, but other connectors were dispatched since this one is due")
		return true, false
	}
	if x.isSwitchedOff() {
		x.fact("scheduler: the one that is connected is switched off (SCHEDULER_ENABLED=false)")
		return false, false
	}
	x.fact("scheduler: none is connected to this database (no connection is named %s)", schedulerName)
	return false, false
}

// isSwitchedOff says whether a scheduler is connected that dispatches nothing.
func (x *explanation) isSwitchedOff() bool {
	return slices.ContainsFunc(x.Services, func(s dbgen.ServicesRow) bool { return s.Name != nil && *s.Name == idleScheduler })
}

// start says how there comes to be a scheduler, where none dispatches.
func (x *explanation) start() string {
	if x.isSwitchedOff() {
		return "start it again without SCHEDULER_ENABLED=false"
	}
	return "start it with `echomind run`, or the scheduler program"
}

// lookout ends a sentence about what the scheduler will do with whether there is one.
func (x *explanation) lookout(what string) string {
	if seen, _ := x.scheduler(); !seen {
		return what + " once a scheduler runs; " + x.start()
	}
	return what
}

// semantic says whether a semantic service is seen, and notes it where none is.
func (x *explanation) semantic() bool {
	for _, s := range x.Services {
		if s.Name != nil && *s.Name == semanticName {
			return true
		}
	}
	x.fact("semantic: none is connected to this database (no connection is named %s)", semanticName)
	return false
}

// healing ends a sentence about what semantic will do with whether there is one.
func (x *explanation) healing(what string) string {
	if !x.semantic() {
		return what + " once semantic runs; start it with `echomind run`, or the semantic program"
	}
	return what
}

func plural(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func text(s *string, none string) string {
	if s == nil || *s == "" {
		return none
	}
	return *s
}
