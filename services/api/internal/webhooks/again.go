package webhooks

import (
	"math/rand/v2"
	"time"
)

// pauses are those before each further try of a delivery, as Standard Webhooks proposes them.
var pauses = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// rests are how long a receiver is left alone after one, two and more turns in a row in which nothing arrived: however much waits for it, others are sent to meanwhile.
var rests = []time.Duration{0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute}

// again is when a delivery is tried again that has been tried so often before this failure, and false where it is not. asked is what Retry-After has said.
func again(tries int32, asked time.Duration) (time.Duration, bool) {
	if int(tries) >= len(pauses) {
		return 0, false
	}
	return max(scattered(pauses[tries]), asked), true
}

// restAfter is how long a receiver is left alone after so many failed turns in a row.
func restAfter(turns int32, asked time.Duration) time.Duration {
	longest := rests[len(rests)-1]
	return max(scattered(rests[min(int(turns), len(rests)-1)]), min(asked, longest))
}

// scattered is a pause that is longer at random by up to a fifth.
func scattered(pause time.Duration) time.Duration {
	return pause + time.Duration(rand.Int64N(int64(pause/5)+1))
}
