package testkit

import (
	"log/slog"
	"sync"
	"testing"
)

// Logger writes warnings and errors into the test's own log. What a goroutine says after the test's end is dropped.
func Logger(t testing.TB) *slog.Logger {
	w := &testLog{t: t}
	t.Cleanup(w.close)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testLog struct {
	mu sync.Mutex
	t  testing.TB // nil after the test
}

func (w *testLog) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Logf("%s", line)
	}
	return len(line), nil
}

func (w *testLog) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t = nil
}
