package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/config"
)

// Config tunes a worker. Its zero value is not valid; take DefaultConfig.
type Config struct {
	// Slots is how many connectors are synced at once. No message is pulled without a free slot.
	Slots int `env:"WORKER_SLOTS" envDefault:"4"`
	// LeaseSeconds is how long a worker may be silent before its connectors are rescued, in seconds. One heartbeat
	// renews all its leases, three times in that time.
	LeaseSeconds int `env:"WORKER_LEASE_SECONDS" envDefault:"15"`
	// MaxRunMinutes ends a handler that works longer, in minutes. Time in which its run waits for Postgres, NATS, what it
	// has sent to be stored, or its source that has asked for it does not count. The sync goes on from its last checkpoint at once; without one it is a transient failure.
	MaxRunMinutes int `env:"WORKER_MAX_RUN_MINUTES" envDefault:"360"`
	// MaxInFlight is how many document messages of a run may wait for their acknowledgement.
	MaxInFlight int `env:"WORKER_MAX_IN_FLIGHT" envDefault:"256"`
	// MaxInFlightBytes is how many bytes of them; at least one message of the largest size.
	MaxInFlightBytes int64 `env:"WORKER_MAX_IN_FLIGHT_BYTES" envDefault:"16777216"`
	// Credit is how many small documents of a run may be sent and not stored yet; a long one counts as one for every four chunks, and
	// may go beyond it. The large runs of a worker share it, so that others' documents do not wait behind them all.
	Credit int `env:"WORKER_CREDIT" envDefault:"500"`
	// Grace is how long a clean stop may take. Handlers go on for all of it but the last 5 s (or half, if that is
	// less); then they are cancelled and their connectors released.
	Grace time.Duration `env:"-"`
	// Reach is a hash, in hexadecimal, of the settings that errors of Refused are about. Connectors that another one has refused are tried again.
	// Empty: errors of Refused are as those of Permanent.
	Reach string `env:"-"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Slots: 4, LeaseSeconds: 15, MaxRunMinutes: 360, MaxInFlight: 256, MaxInFlightBytes: 16 << 20, Credit: 500,
		Grace: 25 * time.Second,
	}
}

// Validate returns every problem at once.
func (c Config) Validate() error {
	err := errors.Join(
		config.AtLeast("WORKER_SLOTS", c.Slots, 1),
		config.AtLeast("WORKER_LEASE_SECONDS", c.LeaseSeconds, 3),
		config.AtLeast("WORKER_MAX_RUN_MINUTES", c.MaxRunMinutes, 1),
		config.AtLeast("WORKER_MAX_IN_FLIGHT", c.MaxInFlight, 1),
		config.AtLeast("WORKER_MAX_IN_FLIGHT_BYTES", int(c.MaxInFlightBytes), 1<<20),
		config.AtLeast("WORKER_CREDIT", c.Credit, 1),
	)
	if c.Slots > 1024 {
		err = errors.Join(err, fmt.Errorf("WORKER_SLOTS=%d: must be at most 1024", c.Slots))
	}
	return err
}

func (c Config) lease() time.Duration { return time.Duration(c.LeaseSeconds) * time.Second }
