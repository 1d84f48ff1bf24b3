package testkit

import (
	"testing"
	"time"
)

// Eventually asks, every 10 ms, until ask returns nil, and fails the test with its last error where that takes longer
// than within. It asks at least once, and must be called by the test's own goroutine.
func Eventually(t testing.TB, within time.Duration, ask func() error) {
	t.Helper()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for until := time.Now().Add(within); ; <-ticker.C {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("not within %s: %v", within, err)
		}
	}
}
