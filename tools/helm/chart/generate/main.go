// Generate writes what of the chart follows from other places: values.schema.json and the Secrets' variables from the values
// and from the services' configuration structs, and README.md's table from the values' comments. It takes the root of the
// repository; with -check it writes nothing and names what is not current.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "write nothing")
	flag.Parse()
	files, err := generate(flag.Arg(0))
	for file, content := range files {
		if *check {
			have, _ := os.ReadFile(file)
			if !bytes.Equal(have, content) {
				err = errors.Join(err, fmt.Errorf("%s is not current", file))
			}
		} else if err == nil {
			err = os.WriteFile(file, content, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate returns the files' new content.
func generate(root string) (map[string][]byte, error) {
	chart := filepath.Join(root, "helm", "echomind")
	values, err := readValues(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return nil, err
	}
	subcharts := map[string]*value{}
	for _, name := range []string{"nats", "postgresql"} {
		if subcharts[name], err = readValues(filepath.Join(chart, "charts", name, "values.yaml")); err != nil {
			return nil, err
		}
	}
	meanings, err := meanings(root)
	if err != nil {
		return nil, err
	}
	var asJSON bytes.Buffer
	encoder := json.NewEncoder(&asJSON)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(valuesSchema(values, subcharts, meanings)); err != nil {
		return nil, err
	}
	var secrets strings.Builder
	secrets.WriteString("# Which variables each component's containers read from its Secret. Generated: make generate.\n")
	for _, name := range components {
		fmt.Fprintf(&secrets, "%s: [%s]\n", name, strings.Join(secretVariables(name), ", "))
	}
	readme := filepath.Join(chart, "README.md")
	page, err := os.ReadFile(readme)
	if err != nil {
		return nil, err
	}
	page, err = withTable(page, table(values, subcharts))
	return map[string][]byte{
		filepath.Join(chart, "values.schema.json"):             asJSON.Bytes(),
		filepath.Join(chart, "files", "secret-variables.yaml"): []byte(secrets.String()),
		readme: page,
	}, err
}

const begin, end = "<!-- The table is generated from the values' comments: make generate. -->\n", "<!-- End of the table. -->\n"

// withTable is the page with its table replaced.
func withTable(page []byte, table string) ([]byte, error) {
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return nil, fmt.Errorf("README.md lacks the lines %q and %q", begin, end)
	}
	return []byte(before + begin + "\n" + table + "\n" + end + after), nil
}

func table(values *value, subcharts map[string]*value) string {
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	row := func(path string, v *value) {
		escape := strings.NewReplacer("|", "\\|").Replace
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", path, escape(v.flow()), escape(v.meaning))
	}
	for _, v := range values.described() {
		row(v.path, v)
	}
	for _, name := range []string{"postgresql", "nats"} {
		for _, v := range subcharts[name].described() {
			row(name+"."+v.path, v)
		}
	}
	return b.String()
}
