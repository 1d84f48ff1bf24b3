//go:build !race

// One thing after another for minutes: there is no race to find.

package secret_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/secret"
)

// bombs are texts that were made so that a naive search reads them again and again.
var bombs = []string{
	"/token:", "/pwd:", "/sig=", "a://", "//a:", "a://b:c ", "a://b:c@", "://?", "a://?", "x token: y ", "bearer bearer:", "cookie: ", `\`, `token="'`,
	"?a=b", `token=\"\`, `token:"`, "a_", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "token:;", "/token:&a ", "token:\n ", "secret:\n- a\n", "token=[", "token={", "token:[{",
	"token:''a", "-token:-", "--token x", "<token>", "<token", "a:b@", "a:b%40", "a:", "%2525", "eyJhbGciOi.", "+++://", "key='token'value='", "token: |\n", "x:/token:,b ", "a://b:c\n",
}

func TestTwiceTheTextIsTwiceTheWork(t *testing.T) {
	const size = 2 << 10
	for _, bomb := range bombs {
		for _, tail := range []string{"", strings.Repeat(":", size/4), strings.Repeat(" ", size/4), "\n@", "@", "]"} {
			once, twice := strings.Repeat(bomb, size/len(bomb))+tail, strings.Repeat(bomb, 2*size/len(bomb))+tail+tail
			require.LessOrEqual(t, secret.Looked(twice), 2*secret.Looked(once)+1000, "%q, behind it %.2q", bomb, tail)
			require.Less(t, secret.Looked(once), 12*len(once), "%q, behind it %.2q", bomb, tail)
		}
	}
}

func TestOfALongTextABoundedPartIsLookedAtAndShown(t *testing.T) {
	for _, bomb := range bombs[:6] {
		text := strings.Repeat(bomb, 128<<10/len(bomb))
		require.LessOrEqual(t, len(secret.Text(text)), 4*secret.MaxText, bomb)
		require.LessOrEqual(t, len(secret.Short(text, 200)), 200, bomb)
	}
	require.Equal(t, strings.Repeat("a", secret.MaxText)+"…", secret.Text(strings.Repeat("a", 1<<20)))
	require.Equal(t, "short", secret.Short("short", 200))
	require.Equal(t, strings.Repeat("é", 98)+"…", secret.Short(strings.Repeat("é", 1<<20), 200))
}

func TestASecretThatACutGoesThroughIsNotShown(t *testing.T) {
	const known = "S3CRET/known+by all"
	c := secret.NewCleaner(known)
	for _, hidden := range []string{
		"https://bob:S3CRET%Sword@h.example", "https://bob:S3CRET Sword@h.example/x", "bob:S3CRETword@h", "password='S3CRET word'", "password=S3CRETword",
		"postgres://u:1/S3CRET@h", "https://h/x?S3CRET=1", "Authorization: Basic S3CRETxyz", "--token S3CRETxyz", "token: [a, S3CRET]",
		known, "S3CRET%2Fknown%2Bby%20all", `S3CRET\u002fknown\u002bby\u0020all`, "S3CRET&#47;known&#43;by&#32;all",
	} {
		for left := strings.Index(hidden, "S3CRET") + 3; left < len(hidden); left++ {
			// The query is masked, so that the end of the text is shown.
			before := "https://h/?" + strings.Repeat("q", 200+secret.Beyond-left-len("https://h/? ")) + " "
			clean := c.Short(before+hidden+strings.Repeat(" y", 40), 200)
			require.True(t, strings.HasPrefix(clean, "https://h/?REDACTED ") && strings.HasSuffix(clean, "…"), clean)
			require.NotContains(t, clean, "S3C", "%q after %d bytes", hidden, left)
		}
	}
}

// allocated is how many bytes a function allocates, kept or not.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestACleanerTakesAsMuchMemoryAsItsSecrets(t *testing.T) {
	for _, unit := range []string{"a", "/", "€", "😀", "\n", "\xff", "%", "&", `\`, "%25", "&amp;", `\u`} {
		long := strings.Repeat(unit, secret.MaxBytes/len(unit))
		var c *secret.Cleaner
		require.Less(t, allocated(func() { c = secret.NewCleaner(long) }), uint64(16*secret.MaxBytes), "%q", unit)
		text := strings.Repeat(unit, secret.MaxText/len(unit))
		require.Less(t, allocated(func() { text = c.Text("of " + text + text) }), uint64(100*secret.MaxText), "%q", unit)
		require.Less(t, strings.Count(text, unit), 3*secret.MaxBytes, "%q", unit)
	}
}

func TestACleanerLearnsWhatComesLaterAndKeepsTheLast(t *testing.T) {
	c := secret.NewCleaner("the-refresh-token")
	c.Learn("access-1")
	c.Learn("tiny")
	require.Equal(t, "REDACTED and REDACTED, tiny", c.Text("access-1 and the-refresh-token, tiny"))
	for range 20 {
		c.Learn("access-2")
	}
	require.Equal(t, "REDACTED", c.Text("access-1"))
	for _, token := range []string{"access-3", "access-4", "access-5", "access-6", "access-7", "access-8", "access-9"} {
		c.Learn(token)
	}
	require.Equal(t, "access-1 REDACTED REDACTED REDACTED", c.Text("access-1 access-2 access-9 the-refresh-token"))
	var none *secret.Cleaner
	none.Learn("access-1")
	require.Equal(t, "access-1", none.Text("access-1"))
}

func TestASecretIsFoundWhateverItsOwnLettersLookLike(t *testing.T) {
	for _, known := range []string{`%41bcdef`, `abcdef%4`, `abcdef\`, `\\\\\\`, `&amp;lt;`, `a\nb\u0041`, `abc%25%zz`, "a\nb\r\tc", `%%%%%%%%`} {
		require.NotContains(t, secret.NewCleaner(known).Text("%"+known+"41"), known)
		require.Equal(t, "[REDACTED]", secret.NewCleaner(known).Text("["+known+"]"))
	}
	require.Equal(t, "REDACTED, REDACTEDREDACTED", secret.NewCleaner("abcdef", "cdefgh").Text("abcdefgh, abcdefabcdef"), "they may overlap")
}
