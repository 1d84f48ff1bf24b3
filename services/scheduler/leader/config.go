package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/config"
)

// The elections there are.
const (
	ByNone       = "none"
	ByPostgres   = "postgres"
	ByKubernetes = "kubernetes"
)

// jitter is how much longer than the retry period client-go may wait.
const jitter = 1.2

// Config is how the leader is elected.
type Config struct {
	// By is none (one scheduler, or several that are kept apart by claims alone), postgres (an advisory lock on a
	// connection of DATABASE_DIRECT_URL) or kubernetes (a Lease; only the scheduler program has it).
	By string `env:"SCHEDULER_LEADER_ELECTION" envDefault:"none"`
	// LeaseName is the name of the Lease.
	LeaseName string `env:"SCHEDULER_LEASE_NAME" envDefault:"echomind-scheduler"`
	// LeaseNamespace is the Lease's namespace; the pod's own, or that of the kubeconfig's context, if empty.
	LeaseNamespace string `env:"SCHEDULER_LEASE_NAMESPACE"`
	// Identity is what the Lease names its holder by, with a UUID behind it; the host's name, which is the pod's, if
	// empty.
	Identity string `env:"SCHEDULER_LEASE_IDENTITY"`
	// Duration is how long the others wait for a leader that has fallen silent, in whole seconds, as in 6s.
	Duration time.Duration `env:"SCHEDULER_LEASE_DURATION" envDefault:"6s"`
	// RenewDeadline is how long a leader that cannot renew the Lease goes on; shorter than the lease.
	RenewDeadline time.Duration `env:"SCHEDULER_LEASE_RENEW_DEADLINE" envDefault:"5s"`
	// RetryPeriod is the time between two looks at the Lease, or two renewals of it.
	RetryPeriod time.Duration `env:"SCHEDULER_LEASE_RETRY_PERIOD" envDefault:"500ms"`
	// Kubeconfig is a file that says where the API server is; the pod's own service account if empty.
	Kubeconfig string `env:"SCHEDULER_KUBECONFIG"`
}

// Validate returns every problem at once.
func (c Config) Validate() error {
	problems := []error{config.OneOf("SCHEDULER_LEADER_ELECTION", c.By, ByNone, ByPostgres, ByKubernetes)}
	if c.By != ByKubernetes {
		return problems[0]
	}
	problem := func(format string, values ...any) { problems = append(problems, fmt.Errorf(format, values...)) }
	if c.LeaseName == "" {
		problem("SCHEDULER_LEASE_NAME is empty: set it to the name of the Lease")
	}
	if c.Duration < time.Second || c.Duration%time.Second != 0 {
		problem("SCHEDULER_LEASE_DURATION=%s: must be whole seconds, at least 1s", c.Duration)
	}
	if c.RenewDeadline >= c.Duration {
		problem("SCHEDULER_LEASE_RENEW_DEADLINE=%s: must be shorter than SCHEDULER_LEASE_DURATION=%s, "+
			"or two lead at once", c.RenewDeadline, c.Duration)
	}
	if least := 10 * time.Millisecond; c.RetryPeriod < least {
		problem("SCHEDULER_LEASE_RETRY_PERIOD=%s: must be at least %s", c.RetryPeriod, least)
	}
	if least := time.Duration(jitter * float64(c.RetryPeriod)); c.RenewDeadline <= least {
		problem("SCHEDULER_LEASE_RENEW_DEADLINE=%s: must be longer than %s, which is %v times "+
			"SCHEDULER_LEASE_RETRY_PERIOD", c.RenewDeadline, least, jitter)
	}
	return errors.Join(problems...)
}
