package natsserver

import (
	"fmt"
	"log/slog"
)

// serverLog passes on the server's warnings and errors, and its last fatal message to the caller of Start: the server leaves it
// to its logger to end the process.
type serverLog struct {
	log   *slog.Logger
	fatal chan string
}

func newLog(log *slog.Logger) *serverLog {
	return &serverLog{log: log, fatal: make(chan string, 1)}
}

func (l *serverLog) Fatalf(format string, args ...any) {
	words := fmt.Sprintf(format, args...)
	l.log.Error("nats-server gives up", "says", words)
	select {
	case l.fatal <- words:
	default:
	}
}

func (l *serverLog) Errorf(format string, args ...any) {
	l.log.Error("nats-server reports an error", "says", fmt.Sprintf(format, args...))
}

func (l *serverLog) Warnf(format string, args ...any) {
	l.log.Warn("nats-server warns", "says", fmt.Sprintf(format, args...))
}

func (l *serverLog) Noticef(string, ...any) {}

func (l *serverLog) Debugf(string, ...any) {}

func (l *serverLog) Tracef(string, ...any) {}
