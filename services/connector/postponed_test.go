package connector_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector"
	"github.com/echomind/sync/testonly/fakegraph"
	"github.com/echomind/sync/testonly/testkit"
)

// postponed runs a connector once, and fails the test unless that run is put off for so long, less a few minutes, without a failure.
func (w *world) postponed(id int32, message string, wait time.Duration) {
	w.Helper()
	session := w.claim(id)
	testkit.Eventually(w, soon, func() error {
		if w.text(`SELECT status FROM scheduler_runs WHERE id = $1`, session) == "running" {
			return fmt.Errorf("it runs: %s", w.log.String())
		}
		return nil
	})
	require.Equal(w, "superseded postponed: "+message, w.text(`SELECT status || ' ' || reason || ': ' || error_message FROM runs WHERE id = $1`, session))
	require.Equal(w, "ACTIVE 0 wait "+message, w.text(`SELECT concat_ws(' ', status, failure_count, due_reason, status_message) FROM connectors WHERE id = $1`, id))
	var seconds float64
	require.NoError(w, w.pool.QueryRow(context.Background(), `SELECT extract(epoch FROM next_sync_at - clock_timestamp())::float8
		FROM connectors WHERE id = $1`, id).Scan(&seconds))
	left := time.Duration(seconds * float64(time.Second))
	require.LessOrEqual(w, left, wait)
	require.Greater(w, left, wait-5*time.Minute)
}

func TestAThrottleThatLastsForHoursDisablesNoConnector(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	_, root := w.graph.NewDrive("alice", "")
	w.graph.File(root, "plan.md", "# Plan")
	w.add(7, first)
	w.graph.Inject(fakegraph.Fault{Times: 1000, Status: http.StatusTooManyRequests, Code: "activityLimitReached", RetryAfter: "3600"})
	for range 5 {
		w.postponed(7, "Microsoft asked us to wait", time.Hour)
		w.exec(`SELECT moves.trigger_sync(7)`) // its user is impatient
		w.exec(`DELETE FROM provider_quotas`)  // and so is the test: it is asked again
	}
	require.Len(t, w.graph.Requests(), 5, "one request for each sync")
	w.postponed(7, "Microsoft asked us to wait", time.Hour)
	require.NotEmpty(t, w.graph.Requests())
	w.postponed(7, "Microsoft asked us to wait", time.Hour)
	require.Empty(t, w.graph.Requests(), "nobody asks meanwhile")

	w.graph.Heal()
	w.exec(`DELETE FROM provider_quotas`)
	w.fetched(w.claim(7))
	require.Equal(t, "ACTIVE", w.text(`SELECT status FROM connectors WHERE id = 7`))
}

func TestAThrottleOfGoogleThatLastsForHoursDisablesNoConnector(t *testing.T) {
	t.Parallel()
	api := newThrottled(t)
	w := newWorld(t, true, func(cfg *connector.Config) { cfg.GoogleDriveURL = api.URL })
	config, err := w.ring.SealConfig(7, connector.SecretFields("google_drive"), []byte(`{"client_id":"app","client_secret":"of the app","refresh_token":"`+first+`"}`))
	require.NoError(t, err)
	w.exec(`INSERT INTO connectors (id, name, type, user_id, config) VALUES (7, 'drive', 'google_drive', 1, $1)`, string(config))
	for range 5 {
		w.postponed(7, "Google asked us to wait", time.Hour)
		w.exec(`DELETE FROM provider_quotas`)
	}
	require.Equal(t, 5, api.count())
}

func TestAWaitThatIsMoreThanASyncWaitsAltogetherPutsItOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true, func(cfg *connector.Config) { cfg.QuotaWaitSeconds = 2 * 3600 })
	w.graph.NewDrive("alice", "")
	w.add(7, first)
	w.graph.Inject(fakegraph.Fault{Times: 1000, Status: http.StatusTooManyRequests, Code: "activityLimitReached", RetryAfter: "3700"})
	for range 2 { // when it is told so, and by the quota
		w.postponed(7, "Microsoft asked us to wait", 3700*time.Second)
	}
}

func TestAFileWhoseDownloadAsksToWaitForTooLongFailsAlone(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			_, root := w.graph.NewDrive("alice", "")
			bad := w.graph.File(root, "bad.md", "# Bad")
			w.graph.File(root, "plan.md", "# Plan")
			w.add(7, first)
			w.exec(`UPDATE connectors SET max_retries = 1 WHERE id = 7`)
			w.graph.Inject(fakegraph.Fault{Path: "/download/" + bad, Times: 1000, Status: status, RetryAfter: "3600"})
			w.fetched(w.claim(7))
			require.Equal(t, "ACTIVE", w.text(`SELECT status FROM connectors WHERE id = 7`))
		})
	}
}

func TestASyncThatWaitsForItsProviderSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.graph.NewDrive("alice", "")
	w.add(7, first)
	w.graph.Inject(fakegraph.Fault{Times: 1000, Status: http.StatusServiceUnavailable, Code: "serviceNotAvailable", RetryAfter: "300"})
	w.claim(7)
	testkit.Eventually(t, soon, func() error {
		said := w.text(`SELECT coalesce(wait_message || (waits_until > clock_timestamp() + interval '4 minutes'), '-') FROM connector_evidence WHERE id = 7`)
		if said != "Microsoft asked us to waittrue" {
			return fmt.Errorf("%s: %s", said, w.log.String())
		}
		return nil
	})
	require.Equal(t, "SYNCING", w.text(`SELECT status FROM connectors WHERE id = 7`))
}

func TestAThrottledSignInIsAWait(t *testing.T) {
	t.Parallel()
	api := newThrottled(t)
	w := newWorld(t, true, func(cfg *connector.Config) { cfg.MicrosoftLoginURL = api.URL })
	w.add(7, first)
	w.postponed(7, "Microsoft asked us to wait", time.Hour)
}

// throttled asks everybody to wait for an hour.
type throttled struct {
	*httptest.Server
	mu    sync.Mutex
	asked int
}

func newThrottled(t *testing.T) *throttled {
	s := &throttled{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		s.asked++
		s.mu.Unlock()
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *throttled) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}
