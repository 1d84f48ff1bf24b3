package crawl

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzDecode: text of any charset is bounded UTF-8, and all else stays what it was.
func FuzzDecode(f *testing.F) {
	for body, contentType := range map[string]string{
		"": "", "caf\xe9": "text/html; charset=windows-1252", "\xff\xfea\x00": "text/plain", "<meta charset=shift_jis>\x83e": "text/html",
		"\x1b$B$\"\x1b(B": "text/html; charset=iso-2022-jp", "~{VP": "text/plain; charset=hz-gb-2312", "\xef\xbb\xbfa": "text/plain; charset=x-user-defined",
		"%PDF-1.7": "text/html", "\x80\x81\xff": "text/html; charset=utf-8", "+AGE-": "text/plain; charset=utf-7", "a\x81": "text/plain; charset=gb18030",
	} {
		f.Add([]byte(body), contentType)
	}
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		const most = 1 << 10
		got, err := decode(body, contentType, most)
		switch {
		case err != nil:
			require.ErrorContains(t, err, "longer than")
		case got.contentType == contentType && !got.html && string(got.body) == string(body):
		default:
			require.True(t, utf8.Valid(got.body))
			require.LessOrEqual(t, len(got.body), max(most, len(body)))
		}
	})
}
