package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// stuckAfter is how long a handler may ignore the end of its context before it is left behind.
	stuckAfter = 5 * time.Second
	// stuckAtStop is the same while the service stops.
	stuckAtStop = 2 * time.Second
	// lastWrite bounds what is written down of a run while the service stops.
	lastWrite = 3 * time.Second
	// handOver is the end of the grace of a clean stop, which handlers have no part in.
	handOver = stuckAtStop + lastWrite
)

// ErrStuck says that handlers did not return though their contexts had ended, and that no slot is left, or that the
// service was to stop: only the end of the process ends them.
var ErrStuck = errors.New("handlers did not return when their contexts had ended: start this process again")

// strand leaves a handler behind that has not returned though its context had ended for this cause, and counts it until
// it does. The handler's run is over: every call on it fails.
func (w *Worker) strand(ended <-chan error, cause error, log *slog.Logger) error {
	w.stuck.Add(1)
	w.metrics.stuck.Inc()
	log.Error("a handler does not return though its context has ended; it holds its memory until it does, and with "+
		"as many of these as slots the process ends", "cause", cause)
	go func() {
		err := <-ended
		w.stuck.Add(-1)
		w.metrics.stuck.Dec()
		log.Info("a handler that was left behind has returned", "err", err)
	}()
	return fmt.Errorf("%w, and its handler did not end when it was told to", cause)
}

// whileSlotsAreFree returns ErrStuck where none is, or where the service stops and leaves a handler behind.
func (w *Worker) whileSlotsAreFree(ctx context.Context) error {
	stuck := int(w.stuck.Load())
	if stuck >= w.config.Slots || stuck > 0 && ctx.Err() != nil {
		return ErrStuck
	}
	return nil
}
