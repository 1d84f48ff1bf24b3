package qdrant

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/services/semantic/internal/qdrant/standin"
)

var ctx = context.Background()

// answering is a collection whose server answers everything with a status and a body.
func answering(t *testing.T, status int, body string) *Collection {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return New(config.Qdrant{URL: server.URL, APIKey: "s3cret"}).Collection("c")
}

func TestAnAnswerThatIsNoneIsAnErrorThatSaysWhy(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		says   string
	}{
		{"an error of its own", 400, `{"status":{"error":"Wrong input: dim"},"time":0}`, `status 400: "Wrong input: dim"`},
		{"an error of a proxy", 502, "<html>bad gateway", `status 502: "<html>bad gateway"`},
		{"a long error", 500, strings.Repeat("é", 1000), "status 500"},
		{"a way that leads elsewhere", 404, "default backend - 404", `status 404: "default backend - 404"`},
		{"a refusal", 401, "Invalid API key or JWT", "check QDRANT_API_KEY"},
		{"a redirect", 307, "", "status 307"},
		{"no JSON", 200, "<html>", "read the answer"},
		{"another form", 200, `{"result": []}`, "read the answer"},
		{"too much", 200, `{"result": "` + strings.Repeat("x", maxAnswer) + `"}`, fmt.Sprintf("larger than %d bytes", maxAnswer)},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := answering(t, c.status, c.body).Check(ctx, 3)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "qdrant: check c: ")
			require.NotContains(t, err.Error(), "s3cret")
			require.Less(t, len(err.Error()), 1000)
			require.NotErrorIs(t, err, ErrMissing)
		})
	}
	require.ErrorIs(t, answering(t, 404, `{"status":{"error":"Not found: Collection"}}`).Check(ctx, 3), ErrMissing)
	for status, body := range map[int]string{200: `{"result":{"status":"acknowledged"}}`, 202: `{}`} {
		require.Error(t, answering(t, status, body).Upsert(ctx, nil), "it is not done yet")
		require.Error(t, answering(t, status, body).KeepOnly(ctx, 1, []int64{1}, nil))
	}
}

func TestAServerThatIsSilentIsNotWaitedForLongerThanItsCaller(t *testing.T) {
	silent, done := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(silent); <-done }))
	t.Cleanup(func() { close(done); server.Close() })
	ended, cancel := context.WithCancel(ctx)
	go func() { <-silent; cancel() }()
	require.ErrorIs(t, New(config.Qdrant{URL: server.URL}).Collection("c").Check(ended, 3), context.Canceled)
	late, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	require.ErrorIs(t, New(config.Qdrant{URL: server.URL}).Collection("c").Check(late, 3), context.DeadlineExceeded)
}

// a collection on a stand-in, with these points: version and words of each.
func holding(t *testing.T, points ...string) *Collection {
	server := httptest.NewServer(&standin.Server{})
	t.Cleanup(server.Close)
	c := New(config.Qdrant{URL: server.URL + "/"}).Collection("c")
	require.ErrorIs(t, c.Check(ctx, 2), ErrMissing)
	require.NoError(t, c.Create(ctx, 2))
	require.NoError(t, c.Check(ctx, 2))
	var all []Point
	for i, p := range points {
		version, words, _ := strings.Cut(p, ":")
		all = append(all, Point{ID: uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%d %s", i, p)), Vector: []float32{float32(i), 1}, Payload: Payload{
			ConnectorID: int32(i % 2), DocumentID: int64(i / 2), Version: version, No: int32(i), Words: strings.Fields(words), Turn: int64(i),
		}})
	}
	require.NoError(t, c.Upsert(ctx, all))
	return c
}

// near is what is nearest to the last point, as "no/version".
func near(t *testing.T, c *Collection, limit int, connectors []int32, words ...string) (found []string) {
	hits, err := c.Nearest(ctx, []float32{1, 0}, connectors, words, limit, limit)
	require.NoError(t, err)
	for _, h := range hits {
		require.Equal(t, float32(h.Payload.No), h.Score)
		found = append(found, fmt.Sprintf("%d/%s", h.Payload.No, h.Payload.Version))
	}
	return found
}

func TestHitsAreTheNearestAndThoseThatHoldAWordEachOnce(t *testing.T) {
	c := holding(t, "v0:apple", "v1:apple pie", "v2:", "v3:pear")
	require.Equal(t, []string{"3/v3", "2/v2"}, near(t, c, 2, []int32{0, 1}))
	require.Equal(t, []string{"2/v2", "0/v0"}, near(t, c, 9, []int32{0}))
	require.Equal(t, []string{"3/v3", "1/v1"}, near(t, c, 1, []int32{0, 1}, "apple", "pear", "plum"))
}

func TestWhatIsKeptOfDocumentsIsTheirVersions(t *testing.T) {
	c := holding(t, "old", "new", "old", "old", "other", "other")
	require.NoError(t, c.KeepOnly(ctx, 3, []int64{0, 1}, []string{"new", "newer"}))
	require.Equal(t, []string{"5/other", "4/other", "3/old", "1/new"}, near(t, c, 9, []int32{0, 1}), "3 came later")
	require.NoError(t, c.KeepOnly(ctx, 4, []int64{0, 1}, []string{"new", "newer"}))
	require.Equal(t, []string{"5/other", "4/other", "1/new"}, near(t, c, 9, []int32{0, 1}))
	require.NoError(t, c.KeepOnly(ctx, 9, []int64{0, 2}, nil))
	require.Empty(t, near(t, c, 9, []int32{0, 1}))
	require.NoError(t, c.Create(ctx, 2), "it is there")
}

func TestAnErrorOfCreateIsReturned(t *testing.T) {
	for _, operation := range []string{"PUT /collections/{name}", "index"} {
		server := httptest.NewServer(&standin.Server{Before: func(o string) error {
			if strings.Contains(o, operation) {
				return errors.New("overloaded")
			}
			return nil
		}})
		t.Cleanup(server.Close)
		require.ErrorContains(t, New(config.Qdrant{URL: server.URL}).Collection("c").Create(ctx, 2), "overloaded", operation)
	}
}
