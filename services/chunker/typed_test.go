package chunker_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/chunker/files"
)

func TestAPasswordInAURLThatIsTypedWrongIsNotRepeated(t *testing.T) {
	const s = "S3cr3tPassw0rd"
	for _, raw := range []string{
		"user:" + s + "@host/path", "user:" + s + "@host:5432/db", "https:/user:" + s + "@host/x", "https:user:" + s + "@host/x", "https:///user:" + s + "@host/x", `https:\\user:` + s + "@host/x",
		"https//user:" + s + "@host/x", "https ://user:" + s + "@host", "https%3A//user:" + s + "@host", "https:／／user:" + s + "@host", "https://user%3A" + s + "%40host/x", `https:\/\/user:` + s + `@host\/x`,
		"smb:user:" + s + "@host/share", "file:user:" + s + "@host/share", "file:/user:" + s + "@host/share", "file:///user:" + s + "@host/../x", "htp://user:" + s + "@host",
		"https://host/x;jsessionid=" + s, "mailto:u:" + s + "@h", "https://host\tx@u:" + s + "@h", "https://user:" + s + "@h/", "https://host/?" + s,
		"https://" + strings.Repeat("u", 250) + ":" + s + "@h", "https:" + strings.Repeat("u", 1180) + ":" + s + "@h", "x:" + strings.Repeat(s, 9000) + "@h",
	} {
		for field, err := range map[string]error{
			"crawl url": crawl.Config{URL: raw}.Validate(), "crawl path_prefix": crawl.Config{URL: "https://h/", PathPrefix: raw}.Validate(),
			"crawl path_prefix with a slash": crawl.Config{URL: "https://h/", PathPrefix: "/" + raw}.Validate(),
			"file url":                       files.Config{URL: raw}.Validate(), "file include": files.Config{URL: "file:///x", Include: []string{"{" + raw}}.Validate(),
		} {
			if field == "file include" && strings.Contains(raw, "?"+s) {
				continue // in a pattern it matches any character
			}
			if err != nil {
				require.NotContains(t, secret.Text(err.Error()), s, "%s %q", field, raw)
				require.Less(t, len(err.Error()), 1500, "%s %q", field, raw)
			}
		}
	}
	// Without "@" the parser takes it for a port, and its error quotes it.
	err := crawl.Config{URL: "https://user:" + s}.Validate()
	require.ErrorContains(t, err, `url "https://user:REDACTED": not an http or https URL (invalid port)`)
}
