//go:build chaos

package topology

import (
	"os"
	"time"
)

// AckWait is how long a consumer may hold a message without a sign of life. The short form of the fault harness has no
// time to wait as long as others do, and says so in CHAOS_ACK_WAIT.
var AckWait = func() time.Duration {
	if wait, err := time.ParseDuration(os.Getenv("CHAOS_ACK_WAIT")); err == nil {
		return wait
	}
	return 15 * time.Second
}()
