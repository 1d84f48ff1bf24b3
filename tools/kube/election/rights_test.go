package election

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/echomind/sync/testonly/testkit"
)

const leaseName = "echomind-scheduler"

// user is somebody with a token and with whatever rights a test grants.
type user string

// users are named by the verbs they get on the one Lease, and nothing else.
var users = []user{all, "get", "get-create", "create-update", "get-update"}

// all is what the chart grants.
const all user = "get-create-update"

func (u user) token() string { return string(u) + "-token" }

// rules are the chart's for all the verbs of the user's name: create is a rule of its own, because Kubernetes does not
// know the name of what is not there yet.
func (u user) rules() (rules []rbacv1.PolicyRule) {
	var named []string
	for verb := range strings.SplitSeq(string(u), "-") {
		if verb == "create" {
			rules = append(rules, rbacv1.PolicyRule{
				APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{verb},
			})
			continue
		}
		named = append(named, verb)
	}
	return append(rules, rbacv1.PolicyRule{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{leaseName}, Verbs: named,
	})
}

// namespace is one of a test's own, in which u has its rights. It returns a kubeconfig of u's.
func (s *apiServer) namespace(t *testing.T, u user) (namespace, kubeconfig string) {
	t.Helper()
	client := s.Client(t)
	made, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	namespace = made.Name
	_, err = client.RbacV1().Roles(namespace).Create(t.Context(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "candidate"}, Rules: u.rules()}, metav1.CreateOptions{})
	if err == nil {
		_, err = client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "candidate"},
			RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "candidate"},
			Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: string(u)}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = s.Kubeconfig(t, u.token(), namespace, s.Address)
	s.granted(t, u, kubeconfig, namespace)
	return namespace, kubeconfig
}

// granted waits until the API server has heard of the rights.
func (s *apiServer) granted(t *testing.T, u user, kubeconfig, namespace string) {
	t.Helper()
	if !strings.Contains(string(u), "get") {
		return
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		_, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), leaseName, metav1.GetOptions{})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if _, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), "another", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("another Lease may be read: %v", err)
	}
}
