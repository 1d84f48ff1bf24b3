package cluster

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/tools/helm/chart/render"
)

func TestTheChartIsInstalledUpgradedAndRemoved(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	in, client := namespace(t, server), server.Client(t)
	notes := helm(t, server, in, append([]string{"install", "e", render.Chart()}, dev...)...)
	for _, wants := range []string{"helm test e --namespace " + in, "e-echomind-setup-1", "echomind connectors add", "port-forward service/e-postgresql"} {
		if !strings.Contains(notes, wants) {
			t.Errorf("the notes lack %q:\n%s", wants, notes)
		}
	}
	before, err := client.AppsV1().Deployments(in).Get(t.Context(), "e-echomind-chunker", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	helm(t, server, in, append([]string{"upgrade", "e", render.Chart(), "--set", "chunker.env.CHUNKER_MAX_TOKENS=300"}, dev...)...)
	after, err := client.AppsV1().Deployments(in).Get(t.Context(), "e-echomind-chunker", metav1.GetOptions{})
	if err != nil || after.Generation == before.Generation {
		t.Errorf("the chunker is not rolled: %v", err)
	}
	jobs, err := client.BatchV1().Jobs(in).List(t.Context(), metav1.ListOptions{})
	if err != nil || !strings.Contains(jobs.Items[len(jobs.Items)-1].Name, "setup-2") {
		t.Errorf("the upgrade's job: %v %v", jobs.Items, err)
	}
	helm(t, server, in, "uninstall", "e")
	testkit.Eventually(t, 30*time.Second, func() error {
		_, err := client.AppsV1().Deployments(in).Get(t.Context(), "e-echomind-chunker", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	secrets, err := client.CoreV1().Secrets(in).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) > 0 {
		t.Errorf("secrets are left: %v %v", secrets.Items, err)
	}
}
