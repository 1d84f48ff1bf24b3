package worker

import "time"

// SetMaxRun makes MaxRunMinutes short enough to be waited for.
func (w *Worker) SetMaxRun(d time.Duration) { w.maxRun = d }

// SetStuckAfter makes what a handler may take that ignores the end of its context short enough to be waited for.
func (w *Worker) SetStuckAfter(d time.Duration) { w.stuckAfter = d }

// SetQueryTimeout makes what a handler's question to Postgres may take short enough to be waited for.
func (w *Worker) SetQueryTimeout(d time.Duration) { w.queryTimeout = d }

// MaxLegs is over how many runs a listing may go on.
const MaxLegs = maxLegs
