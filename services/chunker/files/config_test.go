package files_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/chunker/files"
)

func TestConfigIsTheConnectorsJSON(t *testing.T) {
	var c files.Config
	require.NoError(t, json.Unmarshal([]byte(`{"url":"file:///a b","include":["**/*.md"],"exclude":["x/**"],"hidden":true,"max_file_bytes":5,"max_files":6}`), &c))
	require.Equal(t, files.Config{URL: "file:///a b", Include: []string{"**/*.md"}, Exclude: []string{"x/**"}, Hidden: true, MaxFileBytes: 5, MaxFiles: 6}, c)
	require.NoError(t, c.Validate())
	for _, ok := range []string{"file:///abs", "file:///", "file://localhost/abs", "FILE:///abs", "file:///with%20space", "file:/abs", "file:///a..b"} {
		require.NoError(t, files.Config{URL: ok}.Validate(), ok)
	}
}

func TestEveryBadURLNamesValueAndFix(t *testing.T) {
	for url, fix := range map[string]string{
		"":                  "missing",
		"/abs":              "scheme",
		"s3://bucket":       `scheme "s3", which is not supported yet`,
		"http://x/y":        "file:///",
		"file://host/abs":   "host",
		"file://u@/abs":     "host",
		"file:relative":     "not absolute",
		"file:///a/../b":    "..",
		"file:///a/%2e%2e":  "..",
		"file:///a?x=1":     "%3F",
		"file:///a#b":       "%23",
		"file:///a%00b":     "NUL",
		"file:///%zz":       "percent-encode",
		"file://\x7f/":      "not a valid URL",
		"file:///a/%2E%2E/": "..",
	} {
		err := files.Config{URL: url}.Validate()
		require.ErrorContains(t, err, "url: ", url)
		require.ErrorContains(t, err, fix, url)
	}
	require.NoError(t, files.Config{URL: "file:///a/%252e%252e"}.Validate(), "decoded once: a folder named %2e%2e")
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	err := files.Config{
		URL: "ftp://x", Include: []string{"ok/**", "[", "", "/abs", "../up", "bad\xff"}, Exclude: []string{"{a", strings.Repeat("x", 2000)},
		MaxFileBytes: 1 << 40, MaxFiles: -1,
	}.Validate()
	for _, part := range []string{"url: ", `include[1]: "["`, "include[2]", `include[3]: "/abs"`, `include[4]: "../up"`, "include[5]",
		`exclude[0]: "{a"`, "exclude[1]", "max_file_bytes: 1099511627776", "max_files: -1"} {
		require.ErrorContains(t, err, part)
	}
	require.ErrorContains(t, files.Config{URL: "file:///a", Include: make([]string, 1000)}.Validate(), "1000 patterns")
}
