//go:build !race

// One thing after another for minutes: there is no race to find.

package graph_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// zipped is a service that answers everything with what write writes, compressed.
func zipped(t *testing.T, write func(io.Writer)) (*graph.Client, string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		write(z)
		_ = z.Close()
	}))
	t.Cleanup(api.Close)
	c, err := graph.New(graph.Options{Endpoint: api.URL, API: http.DefaultClient, Plain: http.DefaultClient})
	require.NoError(t, err)
	return c, api.URL + "/x"
}

// taken is what a call allocates, in MB, whether or not it is freed on the way.
func taken(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

func TestAPageOfMillionsOfEmptyItemsIsRefused(t *testing.T) {
	for name, begin := range map[string]string{"items": `{"value":[{}`, "attachments": `{"value":[{"attachments":[{}`, "unknown": `{"x":[{}`} {
		c, link := zipped(t, func(w io.Writer) {
			_, _ = io.WriteString(w, begin)
			for range 4000 {
				_, _ = io.WriteString(w, strings.Repeat(",{}", 1000))
			}
		})
		require.Less(t, taken(func() {
			_, err := c.Items(t.Context(), link)
			require.ErrorIs(t, err, answer.ErrTooLarge, name)
		}), uint64(120), name)
	}
}

func TestAPageOfThreadsKeepsAsManyRepliesAsItHasRoomFor(t *testing.T) {
	const roots, replies = 50, 200
	body := strings.Repeat("w", 4900)
	c, link := zipped(t, func(w io.Writer) {
		_, _ = io.WriteString(w, `{"value":[`)
		for i := range roots {
			_, _ = fmt.Fprintf(w, `%s{"replies":[`, strings.Repeat(",", min(i, 1)))
			for j := range replies {
				_, _ = fmt.Fprintf(w, `%s{"id":"r%d","body":{"contentType":"html","content":"%s"}}`, strings.Repeat(",", min(j, 1)), j, body)
			}
			_, _ = fmt.Fprintf(w, `],"replies@odata.nextLink":"more","id":"%d","body":{"content":"x"}}`, i)
		}
		_, _ = io.WriteString(w, `],"@odata.nextLink":"next"}`)
	})
	page, _, err := c.Messages(t.Context(), link)
	require.NoError(t, err)
	require.Len(t, page.Value, roots)
	require.Equal(t, "next", page.Next)
	kept, size := 0, 0
	for i, m := range page.Value {
		require.Equal(t, fmt.Sprint(i), m.ID)
		require.Equal(t, "x", m.Body.Content)
		if m.CutReplies {
			require.Empty(t, m.Replies)
			require.Empty(t, m.NextReplies, "it goes on after what was left out")
			continue
		}
		require.Equal(t, "more", m.NextReplies)
		require.Len(t, m.Replies, replies)
		kept++
		for _, r := range m.Replies {
			size += r.Weight()
		}
	}
	require.Equal(t, 8, kept)
	require.LessOrEqual(t, size, 9<<20)
}

func TestAStreamedMessageIsWhatItWouldBeWhole(t *testing.T) {
	const text = `{"id":"1","messageType":"message","createdDateTime":"2026-01-02T03:04:05Z","subject":null,"from":{"user":{"displayName":"Ann"}},
		"body":{"contentType":"html","content":"<p>\"{[</p>"},"attachments":[{"id":"a","contentType":"reference"}],"mentions":null,"unknown":[{}],
		"replies":[{"id":"2","body":{"content":"y"}}],"replies@odata.nextLink":"z"}`
	var want graph.Message
	require.NoError(t, json.Unmarshal([]byte(text), &want))
	c, link := zipped(t, func(w io.Writer) {
		_, _ = io.WriteString(w, `{"@odata.context":"c","value":[`+text+`,null,{}],"@odata.deltaLink":"d"}`)
	})
	page, _, err := c.Messages(t.Context(), link)
	require.NoError(t, err)
	require.Equal(t, []graph.Message{want, {}, {}}, page.Value)
	require.Equal(t, "d", page.Delta)
}

// A reply, or a field, was held until its end, whatever its size: one answer took 763 MB.
func TestAMessageThatIsLargerThanAnyIsRefusedBeforeItIsHeld(t *testing.T) {
	filler := `"` + strings.Repeat("a", 60) + `",`
	for name, c := range map[string]struct{ begin, unit, says string }{
		"one field":     {`{"value":[{"id":"1","x":[`, filler, "one value in it has more than 2097152 bytes"},
		"one reply":     {`{"value":[{"id":"1","replies":[{"x":[`, filler, "one value in it has more than 2097152 bytes"},
		"many fields":   {`{"value":[{"id":"1"`, `,"x":"` + strings.Repeat("a", 1000) + `"`, "a message has more than 2097152 bytes without its replies"},
		"many messages": {`{"value":[{}`, `,{"subject":"` + strings.Repeat("a", 10_000) + `"}`, "its messages have more than 8388608 bytes"},
	} {
		units := strings.Repeat(c.unit, 100) // made once: what the server makes is counted too
		c2, link := zipped(t, func(w io.Writer) {
			_, _ = io.WriteString(w, c.begin)
			for sent := 0; sent < 100<<20; sent += len(units) {
				if _, err := io.WriteString(w, units); err != nil {
					return
				}
			}
		})
		var err error
		took := taken(func() { _, _, err = c2.Messages(t.Context(), link) })
		require.ErrorContains(t, err, c.says, name)
		require.Less(t, took, uint64(120), name)
	}
}

func TestAMessageWeighsTheTextAndNameOfItsMentions(t *testing.T) {
	var m, bare graph.Message
	for _, one := range []struct {
		into *graph.Message
		json string
	}{
		{&m, `{"mentions":[{"mentionText":"0123456789","mentioned":{"user":{"displayName":"01234567"}}}]}`},
		{&bare, `{"mentions":[{}]}`},
	} {
		require.NoError(t, json.Unmarshal([]byte(one.json), one.into))
	}
	require.Equal(t, bare.Weight()+18, m.Weight())
}
