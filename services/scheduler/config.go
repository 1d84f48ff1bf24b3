package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/scheduler/leader"
)

// Config is what the scheduler is told.
type Config struct {
	config.Common
	// Enabled switches dispatching off when false; the process stays up and says so.
	Enabled bool `env:"SCHEDULER_ENABLED" envDefault:"true"`
	// CheckIntervalSeconds is the time between two ticks, in seconds. What becomes due by a change is noticed at
	// once, through LISTEN.
	CheckIntervalSeconds int `env:"SCHEDULER_CHECK_INTERVAL_SECONDS" envDefault:"60"`
	// MaxConcurrentSyncs is how many connectors of one type may be PENDING or SYNCING at once; 0 = no cap. A row
	// of connector_types may set another.
	MaxConcurrentSyncs int `env:"SCHEDULER_MAX_CONCURRENT_SYNCS" envDefault:"5"`
	// OwnerSharePercent is how many percent of a type's places one owner (user_id) may hold, at least one place, while others have
	// connectors of the type, 1 to 100. A row of owner_quotas may give an owner another number.
	OwnerSharePercent int `env:"SCHEDULER_OWNER_SHARE_PERCENT" envDefault:"50"`
	// CatchUpWindow is over how much time the work is spread that an outage has left, as in 30m: connectors whose slot came more than a minute before a
	// scheduler looked again are claimed one after another in this time, each at a place of its own before its next slot, and not all at once; 0 = at once.
	CatchUpWindow time.Duration `env:"SCHEDULER_CATCH_UP_WINDOW" envDefault:"0"`
	// ClaimBatch is how many connectors one transaction claims at most; fewer where their configurations and states have more than
	// 2 MiB together.
	ClaimBatch int `env:"SCHEDULER_CLAIM_BATCH" envDefault:"500"`
	// WatchIntervalSeconds is the time between two looks for lost messages, and between two for lost workers, in
	// seconds.
	WatchIntervalSeconds int `env:"SCHEDULER_WATCH_INTERVAL_SECONDS" envDefault:"5"`
	// LostGraceSeconds is how long a message may be on its way before it is looked for, in seconds. It must exceed
	// the deadlines of a claim (8 s) and of its publish (5 s). It doubles with each repeat, up to 60 s.
	LostGraceSeconds int `env:"SCHEDULER_LOST_GRACE_SECONDS" envDefault:"15"`
	// LeaseSeconds is the workers' lease, in seconds: so long must a worker have been silent before it is rescued, and for
	// so long the scheduler rescues nobody after it, or Postgres, was away.
	LeaseSeconds int `env:"WORKER_LEASE_SECONDS" envDefault:"15"`
	// ForeignTimeout is when a SYNCING connector of a subscriber without the worker kit is rescued, as in 6h or 90m.
	ForeignTimeout time.Duration `env:"FOREIGN_SYNC_TIMEOUT" envDefault:"6h"`
	// Refresh is how often new connectors are synced.
	Refresh Refresh
	// Election is how one of several schedulers becomes the leader, which alone works.
	Election leader.Config
}

// Shared is what all services are told.
func (c Config) Shared() config.Common { return c.Common }

// Validate returns every problem at once.
func (c Config) Validate() error {
	return errors.Join(
		c.Common.Validate(),
		config.AtLeast("SCHEDULER_CHECK_INTERVAL_SECONDS", c.CheckIntervalSeconds, 1),
		config.AtLeast("SCHEDULER_MAX_CONCURRENT_SYNCS", c.MaxConcurrentSyncs, 0),
		c.checkOwnerShare(),
		config.AtLeast("SCHEDULER_CLAIM_BATCH", c.ClaimBatch, 1),
		config.AtLeast("SCHEDULER_WATCH_INTERVAL_SECONDS", c.WatchIntervalSeconds, 1),
		config.AtLeast("SCHEDULER_LOST_GRACE_SECONDS", c.LostGraceSeconds, int((claimTimeout+publishTimeout)/time.Second)+1),
		config.AtLeast("WORKER_LEASE_SECONDS", c.LeaseSeconds, 3),
		c.checkForeignTimeout(),
		c.checkCatchUpWindow(),
		c.Refresh.Validate(),
		c.Election.Validate(),
	)
}

func (c Config) checkOwnerShare() error {
	if c.OwnerSharePercent < 1 || c.OwnerSharePercent > 100 {
		return fmt.Errorf("SCHEDULER_OWNER_SHARE_PERCENT=%d: must be 1 to 100", c.OwnerSharePercent)
	}
	return nil
}

func (c Config) checkForeignTimeout() error {
	if c.ForeignTimeout < time.Minute {
		return fmt.Errorf("FOREIGN_SYNC_TIMEOUT=%s: must be at least 1m", c.ForeignTimeout)
	}
	return nil
}

func (c Config) checkCatchUpWindow() error {
	if c.CatchUpWindow < 0 || c.CatchUpWindow > 7*24*time.Hour {
		return fmt.Errorf("SCHEDULER_CATCH_UP_WINDOW=%s: must be 0 to 168h", c.CatchUpWindow)
	}
	return nil
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
