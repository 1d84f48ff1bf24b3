package secret_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/internal/secret"
)

func TestATextThatHasAPairIsSearchedForIt(t *testing.T) {
	pair := rapid.StringMatching(secret.Named)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "before") + " " + pair.Draw(t, "pair") + rapid.String().Draw(t, "behind")
		if !secret.Finds(text) || !secret.MayFind(text) {
			t.Fatalf("%q: found: %t, searched: %t", text, secret.Finds(text), secret.MayFind(text))
		}
	})
	for _, text := range []string{"\u017fecret=x", "API \u212aEY: x", "PA\u017f\u017fWORD\uff1ax", "\u212aennwort\uff1dx", "pw->x", "Cookie&equals;x", "to\u212aen%25253Dx"} {
		require.True(t, secret.Finds(text) && secret.MayFind(text), text)
	}
	for _, text := range []string{"", "2026-01-02T03:04:05Z", "a token", "a passing key", strings.Repeat("a:b ", 100)} {
		require.False(t, secret.MayFind(text) || secret.Finds(text), text)
	}
}
