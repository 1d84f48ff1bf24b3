package worker

import "time"

// SetMaxRun makes MaxRunMinutes short enough to be waited for.
func (w *Worker) SetMaxRun(d time.Duration) { w.maxRun = d }
