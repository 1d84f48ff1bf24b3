package election

import (
	"os"
	"sync"
	"testing"

	"github.com/echomind/sync/tools/kube/election/kubetest"
)

// theEtcd is the one of all tests; each API server that they start keeps its objects there.
var theEtcd = sync.OnceValues(kubetest.StartEtcd)

// apiServer is one kube-apiserver.
type apiServer struct{ *kubetest.Server }

// theAPIServer is shared by the tests that do not break it.
var theAPIServer = sync.OnceValues(newAPIServer)

func newAPIServer() (*apiServer, error) {
	e, err := theEtcd()
	if err != nil {
		return nil, err
	}
	tokens := map[string]string{}
	for _, user := range users {
		tokens[string(user)] = user.token()
	}
	server, err := kubetest.StartServer(e, tokens)
	return &apiServer{server}, err
}

// sharedAPIServer is for a test that does not break it.
func sharedAPIServer(t *testing.T) *apiServer {
	t.Helper()
	server, err := theAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// ownAPIServer is one more, for a test to kill and to freeze.
func ownAPIServer(t *testing.T) *apiServer {
	t.Helper()
	server, err := newAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Kill() })
	return server
}

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(childKubeconfig); kubeconfig != "" {
		beCandidate(kubeconfig)
		return
	}
	code := m.Run()
	if server, err := theAPIServer(); err == nil {
		server.Kill()
	}
	if e, err := theEtcd(); err == nil {
		e.Remove()
	}
	os.Exit(code)
}
