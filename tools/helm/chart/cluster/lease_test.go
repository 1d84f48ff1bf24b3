package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/tools/helm/chart/render"
	"github.com/echomind/sync/tools/kube/election/kubetest"
)

const account, lease = "e-echomind-scheduler", "e-echomind-scheduler"

// installed puts the chart into a namespace of the test's own, without the hook, which nothing runs here, and returns the
// namespace and a token of the scheduler's service account.
func installed(t *testing.T, server *kubetest.Server) (namespaceOf, token string) {
	t.Helper()
	in := namespace(t, server)
	helm(t, server, in, append([]string{"install", "e", render.Chart(), "--no-hooks"}, production...)...)
	answer, err := server.Client(t).CoreV1().ServiceAccounts(in).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return in, answer.Status.Token
}

func TestTheSchedulersAccountMayElectAndNothingElse(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	in, token := installed(t, server)
	client, err := kubernetes.NewForConfig(server.As(token))
	if err != nil {
		t.Fatal(err)
	}
	ctx, leases := t.Context(), client.CoordinationV1().Leases(in)
	var made *coordinationv1.Lease
	testkit.Eventually(t, 10*time.Second, func() (err error) { // until the API server has heard of the rights
		made, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease}}, metav1.CreateOptions{})
		return err
	})
	if made, err = leases.Get(ctx, lease, metav1.GetOptions{}); err != nil {
		t.Errorf("get: %v", err)
	}
	if _, err := leases.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Errorf("update: %v", err)
	}
	// A role that may create may create one of another name: Kubernetes cannot limit that.
	other, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("create another: %v", err)
	}
	for what, err := range map[string]error{
		"get another Lease":     last(leases.Get(ctx, "other", metav1.GetOptions{})),
		"update another Lease":  last(leases.Update(ctx, other, metav1.UpdateOptions{})),
		"delete its Lease":      leases.Delete(ctx, lease, metav1.DeleteOptions{}),
		"list Leases":           last(leases.List(ctx, metav1.ListOptions{})),
		"watch Leases":          last(leases.Watch(ctx, metav1.ListOptions{})),
		"patch its Lease":       last(leases.Patch(ctx, lease, "application/merge-patch+json", []byte(`{}`), metav1.PatchOptions{})),
		"a Lease elsewhere":     last(client.CoordinationV1().Leases("default").Get(ctx, lease, metav1.GetOptions{})),
		"create a Lease there":  last(client.CoordinationV1().Leases("default").Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease}}, metav1.CreateOptions{})),
		"get its Secret":        last(client.CoreV1().Secrets(in).Get(ctx, "echomind-scheduler", metav1.GetOptions{})),
		"list Secrets":          last(client.CoreV1().Secrets(in).List(ctx, metav1.ListOptions{})),
		"get its ConfigMap":     last(client.CoreV1().ConfigMaps(in).Get(ctx, "e-echomind-scheduler", metav1.GetOptions{})),
		"list pods":             last(client.CoreV1().Pods(in).List(ctx, metav1.ListOptions{})),
		"create a pod":          last(client.CoreV1().Pods(in).Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})),
		"get its own Role":      last(client.RbacV1().Roles(in).Get(ctx, account, metav1.GetOptions{})),
		"make tokens":           last(client.CoreV1().ServiceAccounts(in).CreateToken(ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})),
		"list namespaces":       last(client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})),
		"create events":         last(client.CoreV1().Events(in).Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}}, metav1.CreateOptions{})),
		"scale its Deployment":  last(client.AppsV1().Deployments(in).GetScale(ctx, account, metav1.GetOptions{})),
		"look at another's Job": last(client.BatchV1().Jobs(in).List(ctx, metav1.ListOptions{})),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
}

func last[T any](_ T, err error) error { return err }

// The program, with the environment of the chart's ConfigMap and the rights of the chart's Role.
func TestTheSchedulerElectsItselfWithTheChartsConfigurationAndRole(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	in, token := installed(t, server)
	program := filepath.Join(t.TempDir(), "scheduler")
	build := exec.Command("go", "build", "-o", program, "./cmd/scheduler")
	build.Dir = filepath.Join(render.Root(), "services", "scheduler")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the scheduler: %v: %s", err, out)
	}
	settings, err := server.Client(t).CoreV1().ConfigMaps(in).Get(t.Context(), "e-echomind-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := kubetest.FreeAddress()
	scheduler := exec.Command(program)
	scheduler.Env, scheduler.SysProcAttr = os.Environ(), kubetest.EndsWithUs()
	for name, value := range settings.Data {
		scheduler.Env = append(scheduler.Env, name+"="+value)
	}
	// What a pod has, and this test's servers: NATS without TLS and without users.
	scheduler.Env = append(scheduler.Env, "SCHEDULER_KUBECONFIG="+server.Kubeconfig(t, token, in, server.Address), "HTTP_ADDR="+address,
		"DATABASE_URL="+testkit.Database(t, db.Up), "NATS_URL="+testkit.NATS(t).URL(), "NATS_CA_FILE=", "NATS_USER=")
	var said bytes.Buffer
	scheduler.Stderr = &said
	if err := scheduler.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = scheduler.Process.Signal(os.Interrupt)
		_ = scheduler.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	testkit.Eventually(t, 30*time.Second, func() error {
		answer, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		var ready struct{ Notes map[string]string }
		if err := json.NewDecoder(answer.Body).Decode(&ready); err != nil || answer.StatusCode != http.StatusOK {
			return errors.Join(err, errors.New(answer.Status))
		}
		if ready.Notes["scheduler.leadership"] != "leader" {
			return fmt.Errorf("readiness says %v", ready.Notes)
		}
		return nil
	})
	held, err := server.Client(t).CoordinationV1().Leases(in).Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil || held.Spec.HolderIdentity == nil || *held.Spec.HolderIdentity == "" {
		t.Errorf("the Lease is %v: %v", held.Spec, err)
	}
}
