package tenant

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// adoption is HTML whose open <b> the parser clones with all its attributes at each <p>: 65 KB that ask for gigabytes.
func adoption() string {
	var page strings.Builder
	page.WriteString("<!doctype html><title>bomb</title><p><b")
	for i := range 5000 {
		fmt.Fprintf(&page, " a%d", i)
	}
	return page.String() + "></p>" + strings.Repeat("<p>x", 8000)
}

// bombs are files that cost more than they weigh, none over 32 MiB.
func bombs() map[string]string {
	return map[string]string{
		"adoption.html": adoption(),
		"breaks.html":   "<title>breaks</title>" + strings.Repeat("<br>", 2<<20-100),
		"line.csv":      strings.Repeat("a,", 16<<20),
		"deep.json":     strings.Repeat("[", 4<<20),
		"closed.json":   strings.Repeat(`{"a":`, 1<<20) + "1" + strings.Repeat("}", 1<<20),
		"deep.md":       strings.Repeat(">", 1<<20) + " x",
		"lists.md":      strings.Repeat("* ", 1<<20) + "x",
		"brackets.md":   strings.Repeat("[", 1<<20) + strings.Repeat("](", 1<<20),
		"deep.html":     strings.Repeat("<div>", 1<<20) + "x",
		"tables.html":   strings.Repeat("<table><tr><td>", 1<<18) + "x",
	}
}

func writeFolder(folder string, files map[string]string) error {
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return wrap("make a folder", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return wrap("write a file", err)
		}
	}
	return nil
}

// manyNames are a folder of files whose names make patterns try.
func manyNames() map[string]string {
	files := map[string]string{}
	for i := range 500 {
		files[fmt.Sprintf("%s/%s/%s%d", strings.Repeat("a", 200), strings.Repeat("a", 100), strings.Repeat("a", 200), i)] = "x"
	}
	return files
}

// patterns are as many and as long as a configuration may have, and nothing matches any of them.
func patterns() (all []string) {
	for i := range 200 {
		all = append(all, strings.Repeat("**/", 5)+strings.Repeat("*a", 100)+strings.Repeat("{a,b}", 3)+fmt.Sprint("*b", i))
	}
	return all
}

// nested is a value as deep as a configuration may be: 30 levels with the configuration itself, and as long.
func nested() any {
	var value any = make([]int, 20_000)
	for range 28 {
		value = map[string]any{"x": value}
	}
	return value
}
