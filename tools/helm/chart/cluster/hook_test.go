package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/echomind/sync/testonly/testkit"
	"github.com/echomind/sync/tools/helm/chart/render"
)

// inline are values whose Secrets the chart makes itself, the setup job's among them.
var inline = []string{"--set", "common.secretEnv.DATABASE_URL=postgres://h/d", "--set", "networkPolicy.enabled=true",
	"--set", "networkPolicy.nats.to[0].ipBlock.cidr=10.0.0.1/32", "--set", "networkPolicy.postgres.to[0].ipBlock.cidr=10.0.0.1/32",
	"--set", "networkPolicy.apiServer.to[0].ipBlock.cidr=10.0.0.1/32"}

// theJob waits for the setup job and gives its verdict, as the cluster's controller would.
func theJob(t *testing.T, client *kubernetes.Clientset, in string, verdict batchv1.JobConditionType, look func()) {
	t.Helper()
	jobs := client.BatchV1().Jobs(in)
	var job *batchv1.Job
	testkit.Eventually(t, 30*time.Second, func() (err error) {
		job, err = jobs.Get(t.Context(), "e-echomind-setup", metav1.GetOptions{})
		return err
	})
	look()
	now := metav1.Now()
	before := batchv1.JobSuccessCriteriaMet
	job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1}
	if verdict == batchv1.JobFailed {
		before = batchv1.JobFailureTarget
		job.Status = batchv1.JobStatus{StartTime: &now, Failed: 1}
	}
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	for _, c := range []batchv1.JobConditionType{before, verdict} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if _, err := jobs.UpdateStatus(t.Context(), job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestSetupHasWhatItReadsBeforeAnyPodChangesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	in, client := namespace(t, server), server.Client(t)
	kubeconfig := []string{"KUBECONFIG=" + server.AdminKubeconfig(t, in)}
	done := make(chan error, 1)
	go func() {
		_, err := render.Helm(t, kubeconfig, append([]string{"install", "e", render.Chart(), "--namespace", in}, inline...)...)
		done <- err
	}()
	theJob(t, client, in, batchv1.JobComplete, func() {
		_, config := client.CoreV1().ConfigMaps(in).Get(t.Context(), "e-echomind-setup", metav1.GetOptions{})
		_, secret := client.CoreV1().Secrets(in).Get(t.Context(), "e-echomind-setup", metav1.GetOptions{})
		_, network := client.NetworkingV1().NetworkPolicies(in).Get(t.Context(), "e-echomind-setup", metav1.GetOptions{})
		if config != nil || secret != nil || network != nil {
			t.Errorf("the job lacks what it reads: %v %v %v", config, secret, network)
		}
		deployments, err := client.AppsV1().Deployments(in).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(deployments.Items) > 0 {
			t.Errorf("%d Deployments are there before the schema: %v", len(deployments.Items), err)
		}
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	deployments, err := client.AppsV1().Deployments(in).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(deployments.Items) != 5 {
		t.Errorf("%d Deployments: %v", len(deployments.Items), err)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		_, err := client.CoreV1().Secrets(in).Get(t.Context(), "e-echomind-setup", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})

	// An upgrade whose setup fails changes no pod.
	go func() {
		_, err := render.Helm(t, kubeconfig, append([]string{"upgrade", "e", render.Chart(), "--namespace", in, "--set", "image.tag=broken"}, inline...)...)
		done <- err
	}()
	theJob(t, client, in, batchv1.JobFailed, func() {})
	if err := <-done; err == nil || !strings.Contains(err.Error(), "pre-upgrade") {
		t.Errorf("the upgrade ends with %v", err)
	}
	chunker, err := client.AppsV1().Deployments(in).Get(t.Context(), "e-echomind-chunker", metav1.GetOptions{})
	if err != nil || strings.HasSuffix(chunker.Spec.Template.Spec.Containers[0].Image, "broken") {
		t.Errorf("the failed upgrade has rolled the pods: %v", err)
	}
}

func TestHelmTestEndsWithItsPodsVerdict(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	in, client := namespace(t, server), server.Client(t)
	helm(t, server, in, append([]string{"install", "e", render.Chart(), "--no-hooks"}, inline...)...)
	var uid types.UID
	for phase, succeeds := range map[corev1.PodPhase]bool{corev1.PodSucceeded: true, corev1.PodFailed: false} {
		last := uid
		done := make(chan error, 1)
		go func() {
			_, err := render.Helm(t, []string{"KUBECONFIG=" + server.AdminKubeconfig(t, in)}, "test", "e", "--namespace", in, "--timeout", "60s")
			done <- err
		}()
		testkit.Eventually(t, 30*time.Second, func() error {
			pod, err := client.CoreV1().Pods(in).Get(t.Context(), "e-echomind-test", metav1.GetOptions{})
			if err != nil || pod.UID == last {
				return errors.Join(err, errors.New("it is the pod of the test before"))
			}
			uid, pod.Status.Phase = pod.UID, phase
			_, err = client.CoreV1().Pods(in).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
			return err
		})
		if err := <-done; (err == nil) != succeeds || err != nil && strings.Contains(err.Error(), "deadline") {
			t.Errorf("%s: %v", phase, err)
		}
	}
}
