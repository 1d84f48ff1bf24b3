package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/tools/helm/chart/render"
	"github.com/echomind/sync/tools/kube/election/kubetest"
)

// crds are the definitions of what is not Kubernetes' own, as its makers publish them in their Go modules.
var crds = map[string][]string{
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
	"sigs.k8s.io/gateway-api@v1.3.0":                       {"config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"},
	"github.com/kedacore/keda/v2@v2.17.2":                  {"config/crd/bases/keda.sh_scaledobjects.yaml"},
	"github.com/external-secrets/external-secrets@v0.19.2": {"config/crds/bases/external-secrets.io_externalsecrets.yaml"},
}

var (
	theEtcd   = sync.OnceValues(kubetest.StartEtcd)
	theServer = sync.OnceValues(func() (*kubetest.Server, error) {
		e, err := theEtcd()
		if err != nil {
			return nil, err
		}
		return kubetest.StartServer(e, nil)
	})
	definitions = sync.OnceValue(func() error {
		server, err := theServer()
		if err != nil {
			return err
		}
		for module, files := range crds {
			if err := define(server.Admin(), module, files); err != nil {
				return err
			}
		}
		return nil
	})
)

func TestMain(m *testing.M) {
	code := testkit.Main(m)
	if server, err := theServer(); err == nil {
		server.Kill()
	}
	if e, err := theEtcd(); err == nil {
		e.Remove()
	}
	os.Exit(code)
}

// cluster is the API server with the definitions in place.
func cluster(t *testing.T) *kubetest.Server {
	t.Helper()
	server, err := theServer()
	if err == nil {
		err = definitions()
	}
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// define downloads a module and creates the definitions in it.
func define(admin *rest.Config, module string, files []string) error {
	download := exec.Command("go", "mod", "download", "-json", module)
	download.Dir = os.TempDir() // no module of ours is to need it
	download.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	answer, err := download.Output()
	if err != nil {
		return fmt.Errorf("download %s: %w: %s", module, err, answer)
	}
	var where struct{ Dir string }
	if err := json.Unmarshal(answer, &where); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(admin)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(where.Dir, file))
		if err != nil {
			return err
		}
		var definition unstructured.Unstructured
		if err := yaml.Unmarshal(text, &definition.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		// Of a webhook that converts between versions there is none here.
		unstructured.RemoveNestedField(definition.Object, "spec", "conversion")
		unstructured.RemoveNestedField(definition.Object, "status")
		if _, err := client.Resource(definitionsResource).Create(deadline(), &definition, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// namespace is one of the test's own, in which the restricted pod security is enforced.
func namespace(t *testing.T, server *kubetest.Server) string {
	t.Helper()
	made, err := server.Client(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "chart-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Name
}

// warnings are what the API server remarks.
type warnings struct {
	sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.Lock()
	defer w.Unlock()
	w.said = append(w.said, text)
}

// applier sends objects with strict validation on the server's side, and keeps what it remarks.
type applier struct {
	*warnings
	dynamic   dynamic.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	namespace string
}

func applierTo(t *testing.T, server *kubetest.Server, namespace string) *applier {
	t.Helper()
	config := server.Admin()
	a := &applier{warnings: &warnings{}, namespace: namespace}
	config.WarningHandler = a.warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	a.dynamic = client
	a.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(server.Client(t).Discovery()))
	return a
}

func (a *applier) apply(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	kind := object.GroupVersionKind()
	var mapping *meta.RESTMapping
	testkit.Eventually(t, 20*time.Second, func() (err error) { // a definition takes a moment to be served
		if mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			a.mapper.Reset()
		}
		return err
	})
	object = object.DeepCopy()
	object.SetNamespace(a.namespace)
	text, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	resource := a.dynamic.Resource(mapping.Resource).Namespace(a.namespace)
	testkit.Eventually(t, 20*time.Second, func() error {
		_, err = resource.Patch(t.Context(), object.GetName(), types.ApplyPatchType, text,
			metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict})
		if apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	return err
}

// helm is run by somebody who may do everything in a namespace.
func helm(t *testing.T, server *kubetest.Server, namespace string, args ...string) string {
	t.Helper()
	out, err := render.Helm(t, []string{"KUBECONFIG=" + server.AdminKubeconfig(t, namespace)}, append(args, "--namespace", namespace)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
