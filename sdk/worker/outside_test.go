//go:build !race

package worker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnotherModuleCanCallAllOfTheKit builds a module outside of this repository that names every exported type, field, constant and
// variable of sdk, and calls every exported function and method with arguments of the types that they take. Of another module the go
// command refuses to build one that imports what is internal here.
func TestAnotherModuleCanCallAllOfTheKit(t *testing.T) {
	t.Parallel()
	o := outside{imports: map[string]string{}}
	load := exported(t, "github.com/echomind/sync/sdk/...")
	for _, path := range slices.Sorted(maps.Keys(load.ours)) {
		pkg, err := load.from.Import(path)
		require.NoError(t, err)
		o.uses(pkg)
	}
	require.Greater(t, o.calls, 100)
	for _, name := range []string{"worker.New(", "worker.Serve(", "worker.NewJob[", ".DeletionsAllowed(", "source.Run(", "chunk.Split(", "workertest.Contract("} {
		require.Contains(t, o.body.String(), name)
	}

	repository, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	sums, err := os.ReadFile(filepath.Join(repository, "go.sum"))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"outside.go": o.file(),
		"go.sum":     string(sums),
		"go.mod": "module example.com/outside\n\ngo 1.26.0\n\nrequire github.com/echomind/sync v0.0.0\n\n" +
			"replace github.com/echomind/sync => " + repository + "\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "./...")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// packages are what a pattern names, but for what is internal, and what reads them and all they import.
type packages struct {
	ours map[string]bool
	from types.Importer
}

func exported(t *testing.T, pattern string) packages {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Export,DepOnly", pattern)
	list.Stderr = os.Stderr
	list.Env = append(os.Environ(), "GOWORK=off") // sdk/client is another module, and imports nothing of ours
	out, err := list.Output()
	require.NoError(t, err)
	found, files := packages{ours: map[string]bool{}}, map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Export string
			DepOnly            bool
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		files[p.ImportPath] = p.Export
		if !p.DepOnly && !strings.Contains(p.ImportPath, "/internal/") {
			found.ours[p.ImportPath] = true
		}
	}
	found.from = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	return found
}

// outside is a program that uses what packages export. It is only ever built.
type outside struct {
	imports map[string]string // path to name
	body    strings.Builder
	calls   int
}

func (o *outside) uses(pkg *types.Package) {
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		called := o.qualify(pkg) + "." + name
		switch object := object.(type) {
		case *types.Const, *types.Var:
			o.is(object.Type(), called)
		case *types.Func:
			signature := object.Signature()
			if of := signature.TypeParams(); of.Len() > 0 {
				signature, _ = withAny(signature, of.Len()).(*types.Signature)
				called += "[" + strings.Repeat("any, ", of.Len()) + "]"
			}
			o.call(called, signature)
		case *types.TypeName:
			of := object.Type()
			if named, ok := of.(*types.Named); ok && named.TypeParams().Len() > 0 {
				of = withAny(of, named.TypeParams().Len())
			}
			o.members(of)
		}
	}
}

// withAny is a generic type with any for each of its parameters.
func withAny(generic types.Type, parameters int) types.Type {
	of, err := types.Instantiate(nil, generic, slices.Repeat([]types.Type{types.Universe.Lookup("any").Type()}, parameters), false)
	if err != nil {
		panic(err)
	}
	return of
}

// members uses the fields and methods of a type.
func (o *outside) members(of types.Type) {
	receiver := of
	if !types.IsInterface(of) {
		receiver = types.NewPointer(of)
		if fields, ok := of.Underlying().(*types.Struct); ok {
			for field := range fields.Fields() {
				if field.Exported() {
					o.is(field.Type(), fmt.Sprintf("new(%s).%s", o.name(of), field.Name()))
				}
			}
		}
	}
	methods := types.NewMethodSet(receiver)
	for method := range methods.Methods() {
		if method.Obj().Exported() {
			o.call(fmt.Sprintf("(*new(%s)).%s", o.name(receiver), method.Obj().Name()), method.Type().(*types.Signature))
		}
	}
}

// is names the type of a value.
func (o *outside) is(of types.Type, value string) {
	if basic, ok := of.(*types.Basic); ok && basic.Info()&types.IsUntyped != 0 {
		fmt.Fprintf(&o.body, "\t_ = %s\n", value)
		return
	}
	fmt.Fprintf(&o.body, "\tvar _ %s = %s\n", o.name(of), value)
}

// call calls a function, and names the types of what it takes and returns.
func (o *outside) call(function string, signature *types.Signature) {
	var arguments, results []string
	for param := range signature.Params().Variables() {
		arguments = append(arguments, fmt.Sprintf("*new(%s)", o.name(param.Type())))
	}
	for result := range signature.Results().Variables() {
		results = append(results, o.name(result.Type()))
	}
	end := ")"
	if signature.Variadic() {
		end = "...)"
	}
	call := function + "(" + strings.Join(arguments, ", ") + end
	if len(results) == 0 {
		fmt.Fprintf(&o.body, "\t%s\n", call)
	} else {
		fmt.Fprintf(&o.body, "\t_ = func() (%s) { return %s }\n", strings.Join(results, ", "), call)
	}
	o.calls++
}

func (o *outside) name(of types.Type) string { return types.TypeString(of, o.qualify) }

func (o *outside) qualify(pkg *types.Package) string {
	o.imports[pkg.Path()] = pkg.Name()
	return pkg.Name()
}

func (o *outside) file() string {
	var file strings.Builder
	file.WriteString("package outside\n\nimport (\n")
	for _, path := range slices.Sorted(maps.Keys(o.imports)) {
		fmt.Fprintf(&file, "\t%s %q\n", o.imports[path], path)
	}
	file.WriteString(")\n\nfunc all() {\n" + o.body.String() + "}\n\nvar _ = all\n")
	return file.String()
}
