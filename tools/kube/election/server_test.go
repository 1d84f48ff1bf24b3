package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/echomind/sync/internal/testkit"
)

const (
	tools      = "../../../bin/tools"
	startsIn   = time.Minute // on a machine busy with tests
	adminToken = "admin-token"
)

// process is a server of the tests. It ends with them, whatever ends them.
type process struct {
	*exec.Cmd
	log *os.File
}

func launch(dir, name string, args ...string) (*process, error) {
	program, err := filepath.Abs(filepath.Join(tools, name))
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: make test-kube builds it", err)
	}
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	p := &process{exec.Command(program, args...), log}
	p.Stdout, p.Stderr, p.Dir, p.SysProcAttr = log, log, dir, endsWithUs()
	return p, p.Start()
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// says is the end of the process's log.
func (p *process) says() string {
	text, _ := os.ReadFile(p.log.Name())
	return string(text[max(0, len(text)-2000):])
}

// etcd is the one of all tests; each API server that they start keeps its objects there.
type etcd struct {
	*process
	dir, url string
}

var theEtcd = sync.OnceValues(startEtcd)

func startEtcd() (*etcd, error) {
	dir, err := os.MkdirTemp("", "echomind-kube-")
	if err != nil {
		return nil, err
	}
	client, peer := freeAddress(), freeAddress()
	e := &etcd{dir: dir, url: "http://" + client}
	e.process, err = launch(dir, "etcd", "--name=test", "--data-dir="+filepath.Join(dir, "etcd"), "--log-level=error",
		"--unsafe-no-fsync", "--listen-client-urls="+e.url, "--advertise-client-urls="+e.url,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=test=http://"+peer)
	return e, err
}

// apiServer is one kube-apiserver.
type apiServer struct {
	*process
	dir, address string
	start        func() (*process, error)
}

// theAPIServer is shared by the tests that do not break it.
var theAPIServer = sync.OnceValues(newAPIServer)

func newAPIServer() (*apiServer, error) {
	e, err := theEtcd()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(e.dir, "apiserver-")
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(freeAddress())
	s := &apiServer{dir: dir, address: net.JoinHostPort(host, port)}
	tokens := filepath.Join(dir, "tokens.csv")
	lines := adminToken + ",admin,admin,system:masters\n"
	for _, user := range users {
		lines += fmt.Sprintf("%s,%s,%s\n", user.token(), user, user)
	}
	if err := errors.Join(os.WriteFile(tokens, []byte(lines), 0o600), makeKey(filepath.Join(dir, "accounts.key"))); err != nil {
		return nil, err
	}
	s.start = func() (*process, error) {
		return launch(dir, "kube-apiserver", "--etcd-servers="+e.url, "--bind-address="+host, "--advertise-address="+host,
			"--secure-port="+port, "--cert-dir="+dir, "--service-account-issuer=https://echomind.test",
			"--service-account-key-file=accounts.key", "--service-account-signing-key-file=accounts.key",
			"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none", "--token-auth-file=tokens.csv",
			"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--v=0",
			// Ours come from one address, as if they were few.
			"--enable-priority-and-fairness=false", "--watch-cache=false")
	}
	return s, s.restart()
}

// restart starts the server again at its address and waits until it is ready.
func (s *apiServer) restart() (err error) {
	if s.process, err = s.start(); err != nil {
		return err
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for late := time.Now().Add(startsIn); ; <-ticker.C {
		if err = s.ready(); err == nil {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("the API server is not ready: %w; it says: %s", err, s.says())
		}
	}
}

func (s *apiServer) ready() error {
	client, err := rest.HTTPClientFor(s.admin())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, body)
	}
	return nil
}

// ca is the certificate that the server has made for itself.
func (s *apiServer) ca() string { return filepath.Join(s.dir, "apiserver.crt") }

func (s *apiServer) admin() *rest.Config {
	return &rest.Config{
		Host: "https://" + s.address, BearerToken: adminToken, TLSClientConfig: rest.TLSClientConfig{CAFile: s.ca()}, QPS: -1,
	}
}

func (s *apiServer) client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.admin())
	if err != nil {
		t.Fatal(err)
	}
	return client
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
	t.Cleanup(func() { server.kill() })
	return server
}

func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // this machine has no loopback
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestMain(m *testing.M) {
	if kubeconfig := os.Getenv(childKubeconfig); kubeconfig != "" {
		beCandidate(kubeconfig)
		return
	}
	code := testkit.Main(m)
	if server, err := theAPIServer(); err == nil {
		server.kill()
	}
	if e, err := theEtcd(); err == nil {
		e.kill()
		_ = os.RemoveAll(e.dir)
	}
	os.Exit(code)
}
