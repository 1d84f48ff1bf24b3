package teams

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/graph"
)

// allocated is how many bytes a call makes in all, whatever becomes of them.
func allocated(call func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// swelling is a message whose text is many times its size.
func swelling(t *testing.T, id, mention, ats int) graph.Message {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"id": fmt.Sprint(id), "messageType": "message", "createdDateTime": "2026-11-22T10:00:00Z",
		"mentions":    []any{map[string]any{"id": 0, "mentionText": strings.Repeat("a", mention)}},
		"attachments": []any{map[string]any{"id": "f", "name": strings.Repeat("f", mention), "contentType": "reference"}},
		"body": map[string]any{
			"contentType": "html", "content": strings.Repeat(`<at id="0"></at>`, ats) + strings.Repeat(`<attachment id="f"></attachment>`, ats),
		},
	})
	require.NoError(t, err)
	var m graph.Message
	require.NoError(t, json.Unmarshal(raw, &m))
	return m
}

func TestTheTextOfAMessageIsBoundedByItsContent(t *testing.T) {
	for _, c := range [][2]int{{1000, 500}, {14_000, 500}, {1_000_000, 500}} {
		m := swelling(t, 1, c[0], c[1])
		var text string
		took := allocated(func() {
			var err error
			text, err = messageText(t.Context(), m)
			require.NoError(t, err)
		})
		content := len(m.Body.Content) + 2*c[0]
		require.LessOrEqual(t, len(text), min(maxMessageText, textPerByte*content+textBeside))
		require.Less(t, took, 16*content+(8<<20), "%v", c)
	}
}

// 60 replies of 38 KB made 840 MB of texts, all of them held at once.
func TestRepliesAreReadOneByOne(t *testing.T) {
	var replies []graph.Message
	for i := range 60 {
		replies = append(replies, swelling(t, i, 14_000, 500))
	}
	var hash string
	took := allocated(func() {
		var err error
		hash, err = repliesHash(t.Context(), replies)
		require.NoError(t, err)
		_, sections, err := threadText(t.Context(), replies)
		require.NoError(t, err)
		require.Len(t, sections, 60)
	})
	require.Less(t, took, 256<<20)
	replies[30].Mentions[0].Text = "b"
	other, err := repliesHash(t.Context(), replies)
	require.NoError(t, err)
	require.NotEqual(t, hash, other)
}

func TestEachAttachmentIsNamedOnce(t *testing.T) {
	var m graph.Message
	m.MessageType, m.Body.ContentType = "message", "html"
	m.Body.Content = `see <attachment id="1"></attachment> and <attachment id="1"></attachment>`
	for i, name := range []string{"plan.docx", "plan.docx", " of  two\nlines.txt ", ""} {
		m.Attachments = append(m.Attachments, graph.Attachment{ID: fmt.Sprint(i + 1), Name: name, ContentType: "reference"})
	}
	m.Attachments = append(m.Attachments, graph.Attachment{ID: "card", Name: "a card", ContentType: "application/vnd.microsoft.card.adaptive"})
	text, err := messageText(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, "see\n[file: plan.docx]\nand\n[file: plan.docx]\n[file: of two lines.txt]", text)
}

func TestAnAttachmentThatNoTagNamesIsNamedOnce(t *testing.T) {
	var m graph.Message
	m.MessageType, m.Body.ContentType, m.Body.Content = "message", "html", "see below"
	for i := range 3 {
		m.Attachments = append(m.Attachments, graph.Attachment{ID: fmt.Sprint(i), Name: "plan.docx", ContentType: "reference"})
	}
	text, err := messageText(t.Context(), m)
	require.NoError(t, err)
	require.Equal(t, "see below\n[file: plan.docx]", text)
}

// 10,000 attachments in 1.6 MB took 24 s and 9 GB.
func TestAttachmentsCostAsMuchAsTheyAreLong(t *testing.T) {
	var m graph.Message
	m.MessageType, m.Body.ContentType = "message", "text"
	m.Body.Content = strings.Repeat("[file: a]", 100_000)
	for i := range 10_000 {
		m.Attachments = append(m.Attachments, graph.Attachment{ID: fmt.Sprint(i), Name: fmt.Sprintf("a%dx", i), ContentType: "reference"})
	}
	took := allocated(func() {
		text, err := messageText(t.Context(), m)
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), maxMessageText)
	})
	require.Less(t, took, 32<<20)
}

func TestNoMessageIsReadForASyncThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := swelling(t, 1, 10, 1)
	_, err := repliesHash(ctx, []graph.Message{m})
	require.ErrorIs(t, err, context.Canceled)
	_, _, err = threadText(ctx, []graph.Message{m})
	require.ErrorIs(t, err, context.Canceled)
}

func TestAMessageWeighsWhatItsMentionsWeigh(t *testing.T) {
	m := swelling(t, 1, 100_000, 1)
	require.Greater(t, m.Weight(), 200_000)
}
