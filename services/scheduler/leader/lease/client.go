package lease

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/google/uuid"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/echomind/sync/services/scheduler/leader"
)

// namespaceFile is where Kubernetes tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func connect(cfg leader.Config) (*coordination.CoordinationV1Client, *http.Client, string, error) {
	server, namespace, err := apiServer(cfg.Kubeconfig)
	if err != nil {
		return nil, nil, "", err
	}
	if cfg.LeaseNamespace != "" {
		namespace = cfg.LeaseNamespace
	}
	if namespace == "" {
		return nil, nil, "", errors.New("SCHEDULER_LEASE_NAMESPACE is empty and the pod's is not known: set it")
	}
	server.UserAgent = "echomind-scheduler"
	// A connection over which nothing is answered any more is closed with the call that found out, and the next call
	// opens another; HTTP/2 would keep it for the better part of a minute.
	server.NextProtos = []string{"http/1.1"}
	server.QPS = -1 // the retry period bounds the rate
	server.WarningHandler = rest.NoWarnings{}
	client, err := rest.HTTPClientFor(server)
	if err != nil {
		return nil, nil, "", fmt.Errorf("read how to reach the API server: %w", err)
	}
	leases, err := coordination.NewForConfigAndClient(server, client)
	if err != nil {
		return nil, nil, "", fmt.Errorf("make the client of the API server: %w", err)
	}
	return leases, client, namespace, nil
}

// apiServer is how to reach the API server, and the namespace that is ours there.
func apiServer(kubeconfig string) (*rest.Config, string, error) {
	if kubeconfig == "" {
		server, err := rest.InClusterConfig()
		if err != nil {
			return nil, "", fmt.Errorf("SCHEDULER_LEADER_ELECTION=kubernetes, but this is no pod with a service account "+
				"(outside, set SCHEDULER_KUBECONFIG): %w", err)
		}
		namespace, _ := os.ReadFile(namespaceFile)
		return server, strings.TrimSpace(string(namespace)), nil
	}
	file := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{})
	server, err := file.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read SCHEDULER_KUBECONFIG: %w", err)
	}
	namespace, _, err := file.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read SCHEDULER_KUBECONFIG: %w", err)
	}
	return server, namespace, nil
}

// identify names a candidate. The UUID keeps two of one name apart, which would both take themselves for the holder.
func identify(name string) (string, error) {
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("ask for the host's name (or set SCHEDULER_LEASE_IDENTITY): %w", err)
		}
	}
	return name + "_" + uuid.NewString(), nil
}
