// Package evidence answers why a connector is, or is not, running now, and what happens next. Gather reads the
// evidence from Postgres and from the streams; Explain, a pure function, draws the conclusion.
package evidence

import (
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/evidence/failures"
	"github.com/echomind/sync/internal/evidence/internal/dbgen"
	"github.com/echomind/sync/internal/freshness"
	"github.com/echomind/sync/internal/slots"
)

// Settings are those of the scheduler, as far as this process knows them.
type Settings struct {
	// MaxConcurrent is the cap of a type that has none of its own; 0 = no cap.
	MaxConcurrent int
	// OwnerShare is how many percent of a type's places one owner may hold while others have connectors of it.
	OwnerShare int
	// CheckInterval is the longest time between two ticks.
	CheckInterval time.Duration
	// WatchInterval is the time between two looks for what is lost.
	WatchInterval time.Duration
	// LostGrace is how long a message may be on its way before it is looked for.
	LostGrace time.Duration
	// ForeignTimeout is when a run without lease is taken for lost.
	ForeignTimeout time.Duration
}

// SchedulerSays are the settings as the scheduler reads them from the environment.
type SchedulerSays struct {
	MaxConcurrentSyncs   int           `env:"SCHEDULER_MAX_CONCURRENT_SYNCS" envDefault:"5"`
	OwnerSharePercent    int           `env:"SCHEDULER_OWNER_SHARE_PERCENT" envDefault:"50"`
	CheckIntervalSeconds int           `env:"SCHEDULER_CHECK_INTERVAL_SECONDS" envDefault:"60"`
	WatchIntervalSeconds int           `env:"SCHEDULER_WATCH_INTERVAL_SECONDS" envDefault:"5"`
	LostGraceSeconds     int           `env:"SCHEDULER_LOST_GRACE_SECONDS" envDefault:"15"`
	ForeignTimeout       time.Duration `env:"FOREIGN_SYNC_TIMEOUT" envDefault:"6h"`
}

// Settings are what is told of them.
func (s SchedulerSays) Settings() Settings {
	return Settings{
		MaxConcurrent: s.MaxConcurrentSyncs, OwnerShare: s.OwnerSharePercent, CheckInterval: time.Duration(s.CheckIntervalSeconds) * time.Second,
		WatchInterval: time.Duration(s.WatchIntervalSeconds) * time.Second, LostGrace: time.Duration(s.LostGraceSeconds) * time.Second, ForeignTimeout: s.ForeignTimeout,
	}
}

// Connector is where one stands.
type Connector = dbgen.ConnectorEvidence

// Evidence is what is known of one connector at one moment.
type Evidence struct {
	// Now is Postgres's.
	Now      time.Time
	Settings Settings

	// Connector is where it stands, with its open run, the lease of its worker, and the load of its type.
	Connector Connector
	// Calendar is the one that its schedule names; nil for none. CalendarUnknown says why it cannot be read.
	Calendar        *slots.Calendar
	CalendarUnknown error
	// Blackouts are the windows that may hold it; BlackoutProblems say which cannot be read, and hold nobody.
	Blackouts        []slots.Blackout
	BlackoutProblems []error
	// Past are the latest runs that have a verdict, the latest first.
	Past []dbgen.PastRow

	// Failed are the documents that are failed now; FailedUnknown says why they could not be counted.
	Failed        failures.Summary
	FailedUnknown error

	// Services are those that are seen connected to Postgres.
	Services []dbgen.ServicesRow

	Streams Streams

	// IsGlance says that nothing was counted, and the broker not asked: one look at many connectors is to cost little.
	IsGlance bool
}

// Streams is what the broker says. It is asked before Postgres: what Postgres then still calls open was open while
// the broker answered.
type Streams struct {
	// Unknown says why the broker could not be asked; nil if it was.
	Unknown error
	// Triggers is what waits under the connector's subject; TriggersGone that the stream does not exist.
	Triggers     broker.Queue
	TriggersGone bool
	Subscribers  []broker.Subscription
	// Documents is what waits to be stored; DocumentsGone that the stream does not exist.
	Documents     broker.Depth
	DocumentsGone bool
	Storers       []broker.Subscription
	// DrainingBefore is the run that drained already before the broker was asked; nil for none.
	DrainingBefore *uuid.UUID
}

// Answer is the conclusion.
type Answer struct {
	ConnectorID int32  `json:"connector_id"`
	Name        string `json:"name"`
	Type        string `json:"type"`
	Status      string `json:"status"`
	// RunID is the open run, which logs and messages call the session; TryID its pick-up, WorkerID who holds its lease.
	RunID    *uuid.UUID `json:"run_id"`
	TryID    *uuid.UUID `json:"try_id"`
	WorkerID *uuid.UUID `json:"worker_id"`
	// Running says whether a service is at work on it.
	Running bool `json:"running"`
	// Cause is a word for programs.
	Cause Cause `json:"cause"`
	// Why is the same in a sentence.
	Why string `json:"why"`
	// Evidence are the facts that it is concluded from.
	Evidence []string `json:"evidence"`
	// Next is what happens next, and who does it.
	Next string `json:"next"`
	// Freshness is whether what is stored is as fresh as it should be.
	Freshness freshness.Freshness `json:"freshness"`
	// Failed are the documents that are failed now; null where they could not be counted.
	Failed *failures.Summary `json:"failed"`
}

// Cause is why a connector is where it is.
type Cause string

// The causes.
const (
	Queued             Cause = "queued"
	QueuedBehindOthers Cause = "queued_behind_others"
	NoSubscriber       Cause = "no_subscriber"
	InTransit          Cause = "in_transit"
	MessageLost        Cause = "message_lost"

	Fetching          Cause = "fetching"
	DocumentsFull     Cause = "documents_full"
	WorkerLost        Cause = "worker_lost"
	ForeignSubscriber Cause = "foreign_subscriber"
	Storing           Cause = "storing"
	NobodyStores      Cause = "nobody_stores"
	DocumentsLost     Cause = "documents_lost"
	Completing        Cause = "completing"
	BrokerAway        Cause = "broker_away"
	BrokerRefuses     Cause = "broker_refuses"
	SchedulerAway     Cause = "scheduler_away"
	SchedulerIdle     Cause = "scheduler_idle"
	// AsksCondition is of a job that is due, and whose condition is asked first.
	AsksCondition Cause = "asks_condition"
	// WaitsForUpstream is set where a connector runs after others and one of those has not completed yet.
	WaitsForUpstream Cause = "waits_for_upstream"
	// WaitsForKey is set where a connector is due and one of its concurrency keys is full.
	WaitsForKey Cause = "waits_for_key"
	// InBlackout: it is due, and waits for the end of a blackout window.
	InBlackout      Cause = "in_blackout"
	CapFull         Cause = "cap_full"
	OwnerFull       Cause = "owner_full"
	DueNow          Cause = "due_now"
	WaitsForSlot    Cause = "waits_for_slot"
	ManualOnly      Cause = "manual_only"
	OnceOnly        Cause = "once_only"
	BeingPlanned    Cause = "being_planned"
	CannotBePlanned Cause = "cannot_be_planned"
	BackingOff      Cause = "backing_off"
	// ToldToWait is of a source that asked for it, whether a run waits or the next one is put off.
	ToldToWait Cause = "told_to_wait"
	// WaitsForLock is of a run that waits for a lock of a scarce thing, which another run has.
	WaitsForLock       Cause = "waits_for_lock"
	FailedForGood      Cause = "failed_for_good"
	DisabledByUser     Cause = "disabled_by_user"
	DisabledByFailures Cause = "disabled_by_failures"
	// RunMissing is no state that a move leaves.
	RunMissing Cause = "run_missing"
)
