package testkit

import (
	"testing"
	"time"
)

// busy is how many times as long a loaded machine takes for what an idle one does.
const busy = 6

// Patience is how long a test waits for what takes at most so long on a machine that has nothing else to do.
func Patience(idle time.Duration) time.Duration { return busy * idle }

// Eventually asks, every 10 ms, until ask returns nil, and fails the test with its last error where that takes longer
// than within, on a machine that has nothing else to do: any other has six times as long. It asks at least once, and must be called by the test's own
// goroutine.
func Eventually(t testing.TB, within time.Duration, ask func() error) {
	t.Helper()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for until := time.Now().Add(Patience(within)); ; <-ticker.C {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("not within %s: %v", Patience(within), err)
		}
	}
}
