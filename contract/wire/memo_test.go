package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/wire"
)

func TestAMemoIsAnyJSONValueThatPostgresCanHold(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, good := range []string{
		"", "null", "0", "1e999", `"text"`, `"a\\u0000"`, `"[[{{"`, `"\""`, `{"a":[1,2],"b":{}}`, nested(100), "[" + nested(1) + "," + nested(99) + "]",
		`"` + strings.Repeat("x", wire.MaxMemoBytes-2) + `"`,
	} {
		require.NoError(t, wire.CheckMemo([]byte(good)), good)
	}
	for bad, why := range map[string]string{
		`"` + strings.Repeat("x", wire.MaxMemoBytes-1) + `"`: "has 8193 bytes: at most 8192",
		"{":                         "not valid JSON",
		" ":                         "not valid JSON",
		"1 2":                       "not valid JSON",
		"\"a\x00\"":                 "not valid JSON",
		"\"a\xff\"":                 "not UTF-8",
		`"\u0000"`:                  "NUL",
		`{"a\\\u0000":1}`:           "NUL",
		`["` + `\\` + `","\u0000"]`: "NUL",
		nested(101):                 "nested 101 levels deep: at most 100",
		`{"a":"]]` + `","b":` + nested(100) + "}": "nested 101 levels deep",
	} {
		require.ErrorContains(t, wire.CheckMemo([]byte(bad)), why)
	}
}
