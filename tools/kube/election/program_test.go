package election

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/tools/kube/election/kubetest"
)

// theScheduler is the program, built from this checkout.
var theScheduler = sync.OnceValues(func() (string, error) {
	e, err := theEtcd() // whose folder is removed after the tests
	if err != nil {
		return "", err
	}
	program := filepath.Join(e.Dir, "scheduler")
	build := exec.Command("go", "build", "-o", program, "./cmd/scheduler")
	build.Dir = "../../../services/scheduler"
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the scheduler: %w: %s", err, out)
	}
	return program, nil
})

// scheduler is one process of the program.
type scheduler struct {
	*exec.Cmd
	address string
}

// stage is what schedulers of one test share.
type stage struct {
	*testing.T
	env  []string
	conn *pgx.Conn
}

func setStage(t *testing.T, env ...string) *stage {
	t.Helper()
	url, nats := testkit.Database(t, db.Up), testkit.NATS(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &stage{t, append(env, "DATABASE_URL="+url, "NATS_URL="+nats.URL(), "LOG_LEVEL=error",
		"SCHEDULER_MAX_CONCURRENT_SYNCS=0"), conn}
}

func (s *stage) start() *scheduler {
	s.Helper()
	program, err := theScheduler()
	if err != nil {
		s.Fatal(err)
	}
	p := &scheduler{exec.Command(program), kubetest.FreeAddress()}
	p.Env, p.Stderr, p.SysProcAttr = append(append(os.Environ(), s.env...), "HTTP_ADDR="+p.address), os.Stderr, kubetest.EndsWithUs()
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
	})
	return p
}

// is waits until a scheduler is ready and its readiness says this of its leadership.
func (s *stage) is(p *scheduler, said string) {
	s.Helper()
	testkit.Eventually(s, 30*time.Second, func() error {
		answer, err := http.Get("http://" + p.address + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		var ready struct {
			Ready    bool
			Problems map[string]string
			Notes    map[string]string
		}
		if err := json.NewDecoder(answer.Body).Decode(&ready); err != nil {
			return err
		}
		if !ready.Ready || ready.Notes["scheduler.leadership"] != said {
			return fmt.Errorf("readiness says %+v", ready)
		}
		return nil
	})
}

// dispatch makes a connector due and waits until it is on its way.
func (s *stage) dispatch(within time.Duration) {
	s.Helper()
	var id int
	if err := s.conn.QueryRow(s.Context(), `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		VALUES ('docs', 'web', 1, 60) RETURNING id`).Scan(&id); err != nil {
		s.Fatal(err)
	}
	testkit.Eventually(s, within, func() error {
		var status string
		err := s.conn.QueryRow(s.Context(), `SELECT status FROM connectors WHERE id = $1`, id).Scan(&status)
		if err == nil && status != "PENDING" {
			err = fmt.Errorf("status %s", status)
		}
		return err
	})
}

func TestSchedulersAsProgramsFollowEachOtherInTime(t *testing.T) {
	t.Parallel()
	_, kubeconfig := sharedAPIServer(t).namespace(t, all)
	for name, env := range map[string][]string{
		"kubernetes": {"SCHEDULER_LEADER_ELECTION=kubernetes", "SCHEDULER_KUBECONFIG=" + kubeconfig},
		"postgres":   {"SCHEDULER_LEADER_ELECTION=postgres"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setStage(t, env...)
			leads := s.start()
			s.is(leads, "leader")
			waits := s.start()
			s.is(waits, "standby")
			s.dispatch(time.Second)
			for range 3 {
				killed := time.Now()
				if err := leads.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				s.dispatch(takeover)
				t.Logf("leader killed: next dispatch after %s", time.Since(killed).Round(time.Millisecond))
				leads, waits = waits, s.start()
				s.is(leads, "leader")
				s.is(waits, "standby")
			}
			stopped := time.Now()
			if err := leads.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := leads.Wait(); err != nil {
				t.Errorf("the leader ended by %v", err)
			}
			s.dispatch(handover)
			t.Logf("leader stopped cleanly: next dispatch after %s", time.Since(stopped).Round(time.Millisecond))
		})
	}
}
