package semantic

import (
	"errors"
	"time"

	"github.com/echomind/sync/internal/config"
)

// Config is what semantic is told.
type Config struct {
	config.Common
	// Workers is how many batches are embedded and stored at once, and as many of messages of 64 KiB and more beside them.
	Workers int `env:"SEMANTIC_WORKERS" envDefault:"2"`
	// Batch is how many document messages are stored in one transaction at most.
	Batch int `env:"SEMANTIC_BATCH" envDefault:"64"`
	// MaxTries is how often a redelivered message is begun before it becomes a dead letter.
	MaxTries int `env:"SEMANTIC_MAX_TRIES" envDefault:"5"`
	// LedgerRetentionDays is how long the ledger keeps a run, in days; it is dropped by the week.
	LedgerRetentionDays int `env:"LEDGER_RETENTION_DAYS" envDefault:"90"`
	// AuditRetentionDays is how long the audit keeps an entry, in days, and for how long a token that has ended is listed.
	AuditRetentionDays int `env:"AUDIT_RETENTION_DAYS" envDefault:"365"`
	// LeaseSeconds is the workers' lease, in seconds: a worker that was silent for so long is lost, and so are documents that the
	// stream did not hold for so long.
	LeaseSeconds int `env:"WORKER_LEASE_SECONDS" envDefault:"15"`
	// ForeignTimeout is when a run of a subscriber that keeps no lease is lost, as in 6h or 90m.
	ForeignTimeout time.Duration `env:"FOREIGN_SYNC_TIMEOUT" envDefault:"6h"`
	Qdrant         config.Qdrant
}

// Shared is what all services are told.
func (c Config) Shared() config.Common { return c.Common }

// Validate returns every problem at once.
func (c Config) Validate() error {
	return errors.Join(
		c.Common.Validate(),
		config.AtLeast("SEMANTIC_WORKERS", c.Workers, 1),
		config.AtLeast("SEMANTIC_BATCH", c.Batch, 1),
		config.AtLeast("SEMANTIC_MAX_TRIES", c.MaxTries, 1),
		config.AtLeast("LEDGER_RETENTION_DAYS", c.LedgerRetentionDays, 1),
		config.AtLeast("AUDIT_RETENTION_DAYS", c.AuditRetentionDays, 1),
		config.AtLeast("WORKER_LEASE_SECONDS", c.LeaseSeconds, 3),
		config.AtLeast("FOREIGN_SYNC_TIMEOUT (in minutes)", int(c.ForeignTimeout/time.Minute), 1),
		c.Qdrant.Validate(),
	)
}
