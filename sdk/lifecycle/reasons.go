package lifecycle

// Reason is why a run, or a slot that passed without one, has its verdict, as the database's moves write it into column reason.
// A run that is completed or skipped may have a reason of its store's instead, or none.
type Reason string

// The reasons.
const (
	TransientFailure     Reason = "transient failure"
	PermanentFailure     Reason = "permanent failure"
	TookTooLong          Reason = "took too long"
	WorkerLost           Reason = "worker lost"
	LostInTransit        Reason = "lost in transit"
	MessageNotTaken      Reason = "message not taken"
	Released             Reason = "released"
	Postponed            Reason = "postponed"
	ConfigurationChanged Reason = "configuration changed"
	Cancelled            Reason = "cancelled"
	SwitchedOff          Reason = "disabled"
	ConnectorDeleted     Reason = "connector deleted"
	ClaimedAgain         Reason = "claimed again"
	PassedBefore         Reason = "passed before it could be claimed"
	RescheduledBefore    Reason = "schedule changed before it could be claimed"
	SwitchedOffBefore    Reason = "disabled before it could be claimed"
	DeletedBefore        Reason = "connector deleted before it could be claimed"
	TooLate              Reason = "too late"
	NotCaughtUp          Reason = "not caught up"
	LastRunNotOver       Reason = "its last run was not over"
	ConditionFailed      Reason = "condition failed"
)

// Reasons lists them all, with the verdict that each is given for. A test compares it with the migrations and with
// docs/reliability.md.
var Reasons = map[Reason]Verdict{
	TransientFailure: Failed, PermanentFailure: Failed, TookTooLong: Failed, WorkerLost: Failed, LostInTransit: Failed,
	MessageNotTaken: Failed, ConditionFailed: Failed,
	Released: Superseded, Postponed: Superseded, ConfigurationChanged: Superseded, SwitchedOff: Superseded, ConnectorDeleted: Superseded,
	Cancelled: Superseded, ClaimedAgain: Superseded,
	PassedBefore: Missed, RescheduledBefore: Missed, SwitchedOffBefore: Missed, DeletedBefore: Missed, TooLate: Missed, NotCaughtUp: Missed,
	LastRunNotOver: Skipped,
}
