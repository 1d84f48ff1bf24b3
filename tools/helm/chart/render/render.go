// Package render runs helm on the chart and reads what comes out, for tests.
package render

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Release is the name that the tests install under, and Namespace where.
const (
	Release   = "e"
	Namespace = "sync"
)

// Root is the root of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "..")
}

// Chart is the chart's folder.
func Chart() string { return filepath.Join(Root(), "helm", "echomind") }

// Values is one of its values files.
func Values(name string) string { return filepath.Join(Chart(), name) }

// Helm runs helm apart from the settings of the person who runs the tests.
func Helm(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(Root(), "bin", "tools", "helm"), args...)
	home := t.TempDir()
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+home)
	command.Env = append(command.Env, env...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, problems.String())
	}
	return out.String(), nil
}

// Objects are what was rendered.
type Objects []*unstructured.Unstructured

// Template renders the chart with helm's arguments, and fails the test where helm refuses.
func Template(t *testing.T, args ...string) Objects {
	t.Helper()
	out, err := Helm(t, nil, append([]string{"template", Release, Chart(), "--namespace", Namespace}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var all Objects
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object.Object); err != nil {
			if err.Error() == "EOF" {
				return all
			}
			t.Fatalf("read what was rendered: %v", err)
		}
		if len(object.Object) > 0 {
			all = append(all, &object)
		}
	}
}

// Kind are the objects of a kind.
func (o Objects) Kind(kind string) (some Objects) {
	for _, object := range o {
		if object.GetKind() == kind {
			some = append(some, object)
		}
	}
	return some
}

// Find decodes the one object of a kind and a name into a type of Kubernetes'. A field that the type does not have fails the test.
func Find[T any](t *testing.T, all Objects, kind, name string) *T {
	t.Helper()
	for _, object := range all.Kind(kind) {
		if object.GetName() != name {
			continue
		}
		typed := new(T)
		if err := apiruntime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return typed
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}
