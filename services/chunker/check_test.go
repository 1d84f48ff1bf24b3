package chunker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAConfigurationIsCheckedBeforeAnythingRuns(t *testing.T) {
	for _, c := range []struct{ connectorType, config, problems string }{
		{"web", `{"url":"https://h/docs","max_depth":2,"path_prefix":"/docs"}`, ""},
		{"file", `{"url":"file:///srv/docs","include":["**/*.md"],"hidden":true}`, ""},
		{"wiki", `{"anything":1}`, ""},
		{"web", `{}`, `url "": set it to the page`},
		{"web", `{"url":"ftp://h","max_depth":21}`, "url \"ftp://h\"|max_depth 21: set it between 0"},
		{"web", `{"url":"https://h","depth":2,"Max_pages":9,"a":1}`,
			"a: there is no such field|depth: there is no such field; there are url, max_depth, max_pages"},
		{"web", `{"url":"https://h","max_pages":"many"}`, "max_pages: it is a JSON string; write a whole number"},
		{"web", `{"url":7}`, "url: it is a JSON number; write a text in quotes"},
		{"web", `{"url":"https://h","max_pages":1.5}`, "max_pages: it is a JSON number 1.5; write a whole number"},
		{"file", `{}`, "url: it is missing; write file:///absolute/folder"},
		{"file", `{"url":"docs"}`, `url: "docs" has no scheme`},
		{"file", `{"url":"file:///srv","include":"*.md"}`, "include: it is a JSON string; write a list in brackets"},
		{"file", `{"url":"file:///srv","include":["/a"],"max_files":-1}`, `include[0]: "/a" is absolute|max_files: -1 is out of range`},
	} {
		err := CheckConfig(c.connectorType, []byte(c.config))
		if c.problems == "" {
			require.NoError(t, err, c.config)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		want := strings.Split(c.problems, "|")
		require.Len(t, lines, len(want), "%s: %v", c.config, err)
		for i := range want {
			require.Contains(t, lines[i], want[i], c.config)
		}
	}
}

func TestWhatTheServiceWouldNotReadIsRefusedBefore(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "docs"), 0o700))
	reach := Config{FileRoots: []string{root}, AllowCIDRs: []string{"127.0.0.2/32"}}.Reach()
	for _, c := range []struct{ connectorType, url, problem string }{
		{"file", "file://" + root + "/docs", ""},
		{"file", "file://" + root + "/nowhere", "does not exist; create it, or correct the url"},
		{"file", "file:///etc", "\"/etc\" is not in an allowed root; add its root to CHUNKER_FILE_ROOTS (--file-roots of `echomind run`)"},
		{"web", "http://127.0.0.2/", ""},
		{"web", "http://127.0.0.1:8080/", "address 127.0.0.1 is refused (loopback): add 127.0.0.1/32 to CHUNKER_ALLOW_CIDRS (--allow-cidrs of `echomind run`)"},
		{"web", "http://[::1]/", "::1/128 to CHUNKER_ALLOW_CIDRS"},
		{"web", "http://localhost/", "refused (loopback)"},
		{"web", "http://nobody.invalid/", ""},
		{"web", "http://1.1.1.1/", ""},
		{"wiki", "http://127.0.0.1/", ""},
	} {
		err := CheckReach(t.Context(), c.connectorType, []byte(`{"url":"`+c.url+`"}`), reach)
		if c.problem == "" {
			require.NoError(t, err, c.url)
			continue
		}
		require.ErrorContains(t, err, c.problem, c.url)
	}
	require.ErrorContains(t, CheckReach(t.Context(), "file", []byte(`{"url":"file:///srv"}`), Config{}.Reach()), "no folders are")
}
