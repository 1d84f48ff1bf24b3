package election

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/echomind/sync/services/scheduler/leader"
	"github.com/echomind/sync/services/scheduler/leader/lease"
	"github.com/echomind/sync/testonly/leadertest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestReadinessNamesTheVerbThatIsMissing(t *testing.T) {
	t.Parallel()
	for missing, u := range map[string]user{"create": "get-update", "get": "create-update"} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			_, kubeconfig := sharedAPIServer(t).namespace(t, u)
			m := leadertest.NewGroup(t).Join(by(kubeconfig))
			testkit.Eventually(t, handover, lacks(t, m, missing))
		})
	}
	t.Run("update", func(t *testing.T) {
		t.Parallel()
		_, kubeconfig := sharedAPIServer(t).namespace(t, "get-create")
		m := leadertest.NewGroup(t).Join(by(kubeconfig))
		term := m.Term(handover) // it may create the Lease, but not renew it
		leadertest.Over(term, t, takeover)
		testkit.Eventually(t, handover, lacks(t, m, "update"))
	})
}

func lacks(t *testing.T, m *leadertest.Member, verb string) func() error {
	return func() error {
		err := m.Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("lacks the verb %q", verb)) {
			return errors.Join(errors.New("readiness says something else"), err)
		}
		return nil
	}
}

// A verb that is missing is said for as long as it is: what may be read in between is no good sign.
func TestReadinessDoesNotFlickerWhileAVerbIsMissing(t *testing.T) {
	t.Parallel()
	_, kubeconfig := sharedAPIServer(t).namespace(t, "get")
	m := leadertest.NewGroup(t).Join(by(kubeconfig))
	missing := lacks(t, m, "create")
	testkit.Eventually(t, handover, missing)
	for until := time.Now().Add(4 * settings("").RetryPeriod); time.Now().Before(until); runtime.Gosched() {
		if err := missing(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARightThatIsGrantedLaterHealsTheElection(t *testing.T) {
	t.Parallel()
	server := sharedAPIServer(t)
	namespace, kubeconfig := server.namespace(t, "get-update")
	m := leadertest.NewGroup(t).Join(by(kubeconfig))
	testkit.Eventually(t, handover, lacks(t, m, "create"))
	roles := server.Client(t).RbacV1().Roles(namespace)
	role, err := roles.Get(t.Context(), "candidate", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules = all.rules()
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.Term(takeover)
	testkit.Eventually(t, handover, func() error { return m.Check(t.Context()) })
}

func TestOutsideAPodTheElectionSaysWhatIsMissing(t *testing.T) {
	_, err := lease.New(leader.NewCandidate(nil, nil), settings(""), testkit.Logger(t))
	if err == nil || !strings.Contains(err.Error(), "SCHEDULER_KUBECONFIG") {
		t.Error(err)
	}
}
