package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the page says is shown by a test, a test of that name in that package shows.
func TestEveryTestThatTheSecurityPageNamesExists(t *testing.T) {
	named := regexp.MustCompile("`([a-z]+(?:/[a-z]+)*)`: ((?:`Test[A-Za-z]+`(?:, )?)+)")
	seen := 0
	for _, line := range strings.Split(read(t, "docs/security.md"), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) != 4 || strings.HasPrefix(line, "| if hostile") {
			continue
		}
		matches := named.FindAllStringSubmatch(cells[3], -1)
		require.True(t, len(matches) > 0 || strings.HasPrefix(cells[3], "the same test"), line)
		for _, match := range matches {
			files, err := filepath.Glob(filepath.Join(repository, match[1], "*_test.go"))
			require.NoError(t, err)
			var text strings.Builder
			for _, file := range files {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				text.Write(data)
			}
			for _, name := range regexp.MustCompile("Test[A-Za-z]+").FindAllString(match[2], -1) {
				require.Contains(t, text.String(), "func "+name+"(t *testing.T)", "docs/security.md names it in %s", match[1])
				seen++
			}
		}
	}
	require.Greater(t, seen, 15)
}
