package telemetry

import (
	"context"
	"log/slog"
)

// Event marks a log line about a run's life. It is logged under the key "event"; the text form marks the line, so that people
// notice it. A line that only reports has none.
type Event string

// The life of a run: triggered by the scheduler, started by a worker, ended by one of the last three.
const (
	Checking  Event = "checking"
	Triggered Event = "triggered"
	Started   Event = "started"
	Completed Event = "completed"
	Skipped   Event = "skipped"
	Failed    Event = "failed"
)

var marks = map[Event]string{
	Checking: "🔍", Triggered: "📤", Started: "🕐", Completed: "✅", Skipped: "⏭️", Failed: "❌",
}

// eventHandler puts the mark of a line's event before its message.
type eventHandler struct{ slog.Handler }

// Handle is part of slog.Handler.
func (h eventHandler) Handle(ctx context.Context, line slog.Record) error {
	line.Attrs(func(a slog.Attr) bool {
		event, is := a.Value.Any().(Event)
		if is {
			line.Message = marks[event] + " " + line.Message
		}
		return !is
	})
	return h.Handler.Handle(ctx, line)
}

// WithAttrs is part of slog.Handler.
func (h eventHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return eventHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup is part of slog.Handler.
func (h eventHandler) WithGroup(name string) slog.Handler {
	return eventHandler{h.Handler.WithGroup(name)}
}
