package answer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/internal/answer"
)

func refused(body string) *answer.Refusal {
	return answer.ReadRefusal(&http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{}}, "It")
}

func TestBothProvidersRefuseInTheirWay(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("c", 65)
	for body, want := range map[string]string{
		`{"error":{"code":"accessDenied","message":"no\nway","innerError":{"code":"deep"}}}`:         "It answered 403 accessDenied/deep: no way",
		`{"error":{"code":403,"message":"no","errors":[{"reason":"forbidden","location":"token"}]}}`: "It answered 403 forbidden: no",
		`{"error":{"code":"` + long + `","message":""}}`:                                             "It answered 403 Forbidden",
		`{"error":"invalid_grant"}`: "It answered 403 Forbidden",
		`<html>`:                    "It answered 403 Forbidden",
		`{"error":{"message":"` + strings.Repeat("word ", 100) + `"}}`:                               "It answered 403 Forbidden: " + strings.Repeat("word ", 80) + "…",
		`{"error":{"code":"a","innererror":{"code":" ","details":[{"reason":"b"}]},"details":null}}`: "It answered 403 a/b",
	} {
		require.EqualError(t, refused(body), want)
	}
	r := refused(`{"error":{"errors":[{"reason":"invalid","location":"pageToken"}]}}`)
	require.Equal(t, "pageToken", r.Parameter)
	require.Equal(t, "invalid", r.Code())
	require.True(t, r.Has("other", "INVALID"))
	require.Equal(t, 403, answer.RefusalOf(fmt.Errorf("ask: %w", r)).Status)
	none := answer.RefusalOf(errors.New("none"))
	require.Zero(t, none.Status)
	require.Empty(t, none.Code())
}

func TestOnlyIncompleteAnswersAreAskedForAgain(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		err  error
		want int
	}{"none": {nil, 1}, "another": {io.EOF, 1}, "incomplete": {fmt.Errorf("%w: x", answer.ErrIncomplete), answer.Tries}} {
		asked := 0
		require.Equal(t, c.err, answer.Repeat(ctx, 0, func() error { asked++; return c.err }), name)
		require.Equal(t, c.want, asked, name)
	}
	cancel()
	asked := 0
	require.ErrorIs(t, answer.Repeat(ctx, 0, func() error { asked++; return answer.ErrIncomplete }), answer.ErrIncomplete)
	require.Equal(t, 1, asked)
}

func TestTheLastOfWhatIsListedTwiceIsKeptAtItsPlace(t *testing.T) {
	t.Parallel()
	first := func(s string) string { return s[:min(1, len(s))] }
	require.Equal(t, []string{"b1", "a2", "c1"}, answer.LastOf([]string{"a1", "", "b1", "a2", "c1"}, first))
	require.Empty(t, answer.LastOf(nil, first))
}

func TestAnErrorCodeIsReadWhateverStandsBesideIt(t *testing.T) {
	for _, beside := range []string{
		`"details":"the token is too old"`, `"details":{"reason":"x"}`, `"details":["x"]`, `"details":[{"reason":{"code":1}}]`, `"errors":{"delta":["x"]}`,
	} {
		r := refused(`{"error":{"code":"resyncRequired","message":"again",` + beside + `}}`)
		require.True(t, r.Has("resyncRequired"), "%s: %v", beside, r)
	}
	r := refused(`{"error":{"errors":[{"reason":"exportSizeLimitExceeded"}],"details":"too large"}}`)
	require.Equal(t, "exportSizeLimitExceeded", r.Code())
}

func TestARefusalIsOneLine(t *testing.T) {
	body, err := json.Marshal(map[string]any{"error": map[string]any{"errors": []any{map[string]any{"reason": "a\nb\x1b[2Jc"}}}})
	require.NoError(t, err)
	require.NotContains(t, refused(string(body)).Brief(), "\n")
	r := answer.ReadRefusal(&http.Response{StatusCode: 520, Body: io.NopCloser(strings.NewReader(`<html>`)), Header: http.Header{}}, "Google Drive")
	require.Equal(t, "Google Drive answered 520", r.Brief())
}
