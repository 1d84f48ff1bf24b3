package kubetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	startsIn   = time.Minute // on a machine busy with tests
	adminToken = "admin-token"
)

// Etcd is where API servers keep their objects: each that is started beside it sees the same ones.
type Etcd struct {
	*process
	Dir string // of the tests, until Remove
	url string
}

// StartEtcd starts one.
func StartEtcd() (*Etcd, error) {
	dir, err := os.MkdirTemp("", "echomind-kube-")
	if err != nil {
		return nil, err
	}
	client, peer := FreeAddress(), FreeAddress()
	e := &Etcd{Dir: dir, url: "http://" + client}
	e.process, err = launch(dir, "etcd", "--name=test", "--data-dir="+filepath.Join(dir, "etcd"), "--log-level=error",
		"--unsafe-no-fsync", "--listen-client-urls="+e.url, "--advertise-client-urls="+e.url,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=test=http://"+peer)
	return e, err
}

// Remove ends it and leaves nothing behind.
func (e *Etcd) Remove() {
	e.Kill()
	_ = os.RemoveAll(e.Dir)
}

// Server is one kube-apiserver.
type Server struct {
	*process
	Address string
	dir     string
	start   func() (*process, error)
}

// StartServer starts one, which knows users by their tokens, and waits until it is ready.
func StartServer(e *Etcd, tokens map[string]string) (*Server, error) {
	dir, err := os.MkdirTemp(e.Dir, "apiserver-")
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(FreeAddress())
	s := &Server{dir: dir, Address: net.JoinHostPort(host, port)}
	lines := adminToken + ",admin,admin,system:masters\n"
	for user, token := range tokens {
		lines += fmt.Sprintf("%s,%s,%s\n", token, user, user)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(lines), 0o600), makeKey(filepath.Join(dir, "accounts.key"))); err != nil {
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
	return s, s.Restart()
}

// Restart starts the server again at its address and waits until it is ready.
func (s *Server) Restart() (err error) {
	if s.process, err = s.start(); err != nil {
		return err
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for late := time.Now().Add(startsIn); ; <-ticker.C {
		if err = s.Ready(); err == nil {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("the API server is not ready: %w; it says: %s", err, s.says())
		}
	}
}

// Ready asks the server whether it is.
func (s *Server) Ready() error {
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.Address+"/readyz", nil)
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
func (s *Server) ca() string { return filepath.Join(s.dir, "apiserver.crt") }

// Admin is the configuration of somebody who may do everything.
func (s *Server) Admin() *rest.Config { return s.As(adminToken) }

// As is the configuration of a token's owner.
func (s *Server) As(token string) *rest.Config {
	return &rest.Config{
		Host: "https://" + s.Address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: s.ca()}, QPS: -1,
	}
}

// Client is the admin's.
func (s *Server) Client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Kubeconfig is a file that leads a token's owner to a namespace, at an address that leads to the server.
func (s *Server) Kubeconfig(t *testing.T, token, namespace, address string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthority: s.ca()}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: namespace}
	config.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// AdminKubeconfig is a file for the admin.
func (s *Server) AdminKubeconfig(t *testing.T, namespace string) string {
	t.Helper()
	return s.Kubeconfig(t, adminToken, namespace, s.Address)
}

// makeKey makes a key to sign service accounts with.
func makeKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
