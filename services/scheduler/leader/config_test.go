package leader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/scheduler/leader"
)

func defaults(t *testing.T) leader.Config {
	t.Helper()
	var cfg leader.Config
	if err := config.Load(&cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTheDefaultsAreValidForEveryElection(t *testing.T) {
	for _, by := range []string{leader.ByNone, leader.ByPostgres, leader.ByKubernetes} {
		cfg := defaults(t)
		cfg.By = by
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", by, err)
		}
	}
}

func TestTheDefaultElectionIsNone(t *testing.T) {
	if by := defaults(t).By; by != leader.ByNone {
		t.Error(by)
	}
}

func TestTheDefaultLeaseIsReplacedWithinTenSecondsOfAKill(t *testing.T) {
	cfg := defaults(t)
	// client-go waits up to 1 + 1.2 retry periods between two looks: once before it has seen the last renewal, once
	// after the lease has run out.
	worst := cfg.Duration + 2*time.Duration(2.2*float64(cfg.RetryPeriod))
	t.Logf("at worst %s", worst)
	if worst > 9*time.Second {
		t.Errorf("it may take %s", worst)
	}
}

func TestALeaseThatCannotWorkIsRefusedWithEveryReason(t *testing.T) {
	cfg := defaults(t)
	cfg.By, cfg.LeaseName = leader.ByKubernetes, ""
	cfg.Duration, cfg.RenewDeadline, cfg.RetryPeriod = 1500*time.Millisecond, 2*time.Second, 2*time.Second
	err := cfg.Validate()
	if err == nil {
		t.Fatal("it is accepted")
	}
	for _, told := range []string{
		"SCHEDULER_LEASE_NAME", "SCHEDULER_LEASE_DURATION=1.5s: must be whole seconds",
		"SCHEDULER_LEASE_RENEW_DEADLINE=2s: must be shorter", "SCHEDULER_LEASE_RENEW_DEADLINE=2s: must be longer than 2.4s",
	} {
		if !strings.Contains(err.Error(), told) {
			t.Errorf("%v does not say %q", err, told)
		}
	}
}

func TestAnUnknownElectionIsRefused(t *testing.T) {
	cfg := defaults(t)
	cfg.By = "zookeeper"
	if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "none, postgres, kubernetes") {
		t.Error(err)
	}
}
