package lifecycle

// Status is where a connector stands.
type Status string

// The statuses of a connector, as column connectors.status spells them.
const (
	Pending  Status = "PENDING"
	Syncing  Status = "SYNCING"
	Active   Status = "ACTIVE"
	Error    Status = "ERROR"
	Disabled Status = "DISABLED"
)

// Statuses lists them all.
var Statuses = []Status{Pending, Syncing, Active, Error, Disabled}

// Move is one change of status.
type Move struct{ From, To Status }

// Moves lists every move there is, with what makes it. The database refuses any other.
var Moves = map[Move]string{
	{Active, Pending}:   "due: the scheduler claims it",
	{Error, Pending}:    "due again: backoff over, triggered or changed",
	{Pending, Syncing}:  "picked up by a worker",
	{Syncing, Active}:   "all documents stored; or released, postponed or cancelled",
	{Syncing, Error}:    "failed",
	{Pending, Error}:    "nobody could take its message",
	{Syncing, Pending}:  "worker lost: rescued under a new run",
	{Pending, Active}:   "released, or cancelled",
	{Active, Error}:     "its condition has failed",
	{Error, Active}:     "its condition is not met: the failures are over",
	{Active, Disabled}:  "disabled by the user, or by too many failures of its condition in a row",
	{Pending, Disabled}: "disabled by the user, or by too many failures in a row",
	{Syncing, Disabled}: "disabled by the user, or by too many failures in a row",
	{Error, Disabled}:   "disabled by the user, or by too many failures of its condition in a row",
	{Disabled, Active}:  "enabled by the user",
}

// Verdict is what came of a slot, as column scheduler_runs.status spells it; Running while there is none yet.
type Verdict string

// The verdicts.
const (
	Running    Verdict = "running"
	Completed  Verdict = "completed"
	Skipped    Verdict = "skipped"
	Failed     Verdict = "failed"
	Superseded Verdict = "superseded"
	Missed     Verdict = "missed"
)

// Verdicts lists them all.
var Verdicts = []Verdict{Running, Completed, Skipped, Failed, Superseded, Missed}

// Failure is the kind of a failure; it decides about the next try.
type Failure string

// The kinds of failure.
const (
	// Transient failures are tried again after min(2^n, 60) minutes with jitter.
	Transient Failure = "transient"
	// Permanent failures are not tried again until the user changes or triggers the connector.
	Permanent Failure = "permanent"
	// TooLong is a run that took longer than it may, and has sent nothing; see Cut for one that has. Where it has passed a checkpoint it goes on from there at once, and no
	// failure is counted; else it is like a transient one.
	TooLong Failure = "too_long"
	// Relist is transient, and clears the connector's state but for what stands under "place": the next run lists everything.
	Relist Failure = "relist"
)
