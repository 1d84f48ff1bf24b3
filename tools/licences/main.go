// Licences writes the direct dependencies of the modules that it is given, as a table: which version we use and of when, the newest
// one, and the licence. With -check it writes nothing, asks no network, and says where the table that it is given is not current.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/licensecheck"
)

// ours are the modules of this repository.
const ours = "github.com/echomind/sync"

const head = `# Licences

<!-- Written by make licences. -->

The modules that our programs and their tests import directly. The newest release is that of the day on which the list was written.

| module | version | of | newest release | licence |
|---|---|---|---|---|
`

func main() {
	check := flag.String("check", "", "the table to look at")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *check, flag.Args(), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check string, folders []string, out io.Writer) error {
	all, err := direct(ctx, folders, check == "")
	if err != nil {
		return err
	}
	if check == "" {
		_, _ = io.WriteString(out, head)
		for _, m := range all {
			_, _ = fmt.Fprintln(out, m.row())
		}
		return nil
	}
	table, err := os.ReadFile(check)
	if err != nil {
		return err
	}
	return compare(string(table), all)
}

// module is what go list says of one.
type module struct {
	Path, Version, Dir string
	Time               *time.Time
	Main, Indirect     bool
	Update             *module

	licence string
}

func (m module) row() string {
	newest := "this one"
	if m.Update != nil {
		newest = m.Update.Version + ", " + day(m.Update.Time)
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |", m.Path, m.Version, day(m.Time), newest, m.licence)
}

func day(t *time.Time) string {
	if t == nil {
		return "unknown"
	}
	return t.UTC().Format(time.DateOnly)
}

// compare looks at what does not change by itself.
func compare(table string, all []module) error {
	said := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\S+) \\|.*\\| ([^|]+) \\|$").FindAllStringSubmatch(table, -1) {
		said[row[1]] = row[2] + ", " + row[3]
	}
	var err error
	for _, m := range all {
		if is := m.Version + ", " + m.licence; said[m.Path] != is {
			err = errors.Join(err, fmt.Errorf("%s is %s; the list says %q: run make licences", m.Path, is, said[m.Path]))
		}
		delete(said, m.Path)
	}
	for path := range said {
		err = errors.Join(err, fmt.Errorf("%s is in the list, and nothing needs it: run make licences", path))
	}
	return err
}

// direct are the modules that those in the folders import directly, by path.
func direct(ctx context.Context, folders []string, newest bool) ([]module, error) {
	found := map[string]module{}
	for _, folder := range folders {
		args := []string{"list", "-m", "-json"}
		if newest {
			args = append(args, "-u", "-e") // what cannot be asked for is left out
		}
		listed, err := modules(ctx, folder, append(args, "all")...)
		if err != nil {
			return nil, err
		}
		for _, m := range listed {
			if m.Main || m.Indirect || m.Path == ours || strings.HasPrefix(m.Path, ours+"/") {
				continue
			}
			found[m.Path] = m
		}
	}
	var all []module
	for _, m := range found {
		if m.Dir == "" { // nothing that was built here has needed it yet
			here, err := modules(ctx, folders[0], "mod", "download", "-json", m.Path+"@"+m.Version)
			if err != nil {
				return nil, err
			}
			m.Dir = here[0].Dir
		}
		var err error
		if m.licence, err = licence(m.Dir); err != nil {
			return nil, fmt.Errorf("the licence of %s: %w", m.Path, err)
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

func modules(ctx context.Context, folder string, args ...string) ([]module, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s in %s: %w", strings.Join(args, " "), folder, err)
	}
	var all []module
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m module
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
}

// licence names the licences in a module's own files, by their SPDX identifiers.
func licence(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "[CL][OIi][CPc]*"))
	if err != nil {
		return "", err
	}
	var names []string
	for _, file := range files {
		if !regexp.MustCompile(`^(LICEN[CS]E|COPYING|License)`).MatchString(filepath.Base(file)) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, match := range licensecheck.Scan(text).Match {
			if !slices.Contains(names, match.ID) {
				names = append(names, match.ID)
			}
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("no file in %s holds one that is known", dir)
	}
	slices.Sort(names)
	return strings.Join(names, ", "), nil
}
