//go:build !chaos

package topology

import "time"

// AckWait is how long a consumer may hold a message without a sign of life.
const AckWait = 15 * time.Second
