package api_test

import (
	"html"
	"net/url"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// formOf are the hidden fields of the form that begins an operation.
func formOf(w *world, page string) url.Values {
	w.Helper()
	_, form, found := strings.Cut(page, `<form method="post" action="/operations`)
	require.True(w, found, page)
	form, _, _ = strings.Cut(form, "</form>")
	values := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(form, -1) {
		values.Set(field[1], html.UnescapeString(field[2]))
	}
	return values
}
