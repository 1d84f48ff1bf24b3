package teams

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/services/connector/graph"
)

const (
	// textVersion changes whenever the text of a thread is built differently, so that all threads are stored again when they are
	// next read.
	textVersion = "1"
	// maxTitle is the length in bytes to which a title is cut that is taken from a message.
	maxTitle = 100
	// maxThreadBytes ends a thread's text. At 1000 replies of usual length it is a hundredth of that.
	maxThreadBytes = 16 << 20
	// maxMessageText bounds the text of one message, which has 28 KB at most as Microsoft documents. textPerByte and textBeside
	// bound it by its content as well: so many bytes for each, and so many more.
	maxMessageText = 1 << 20
	textPerByte    = 4
	textBeside     = 1 << 10
)

// threadText turns the messages of a thread into a title and text. Each message is a section that begins with its author and time,
// so that chunks show them.
func threadText(ctx context.Context, messages []graph.Message) (title string, sections []chunk.Section, err error) {
	at := int64(0)
	for i, m := range messages {
		said, err := messageText(ctx, m)
		if err != nil {
			return "", nil, err
		}
		if i == 0 {
			title = titleOf(m, said)
		}
		text := cmp.Or(m.From.Name(), "Unknown") + " (" + m.Created.UTC().Format("2006-01-02 15:04 UTC") + "):\n" + said + "\n\n"
		if at+int64(len(text)) > maxThreadBytes {
			break
		}
		sections = append(sections, chunk.Section{HeadingPath: []string{title}, Text: text, Start: at})
		at += int64(len(text))
	}
	return title, sections, nil
}

// titleOf is a message's subject, else the first line of what it says.
func titleOf(m graph.Message, said string) string {
	if subject := strings.Join(strings.Fields(m.Subject), " "); subject != "" {
		return subject
	}
	for first := range strings.Lines(said) {
		if first = strings.TrimSpace(first); first != "" {
			if len(first) > maxTitle {
				first = line.Cut(first, maxTitle) + "…"
			}
			return first
		}
	}
	if name := m.From.Name(); name != "" {
		return "Message by " + name
	}
	return "Message"
}

// names are the texts of the tags in a message.
type names struct {
	mentions, attached map[string]string
	// written are the attachments that the text names.
	written map[string]struct{}
}

// namesOf also returns how many bytes the names have.
func namesOf(m graph.Message) (names, int) {
	n, size := names{map[string]string{}, map[string]string{}, map[string]struct{}{}}, 0
	for _, at := range m.Mentions {
		name := line.One(cmp.Or(at.Text, at.Mentioned.Name()))
		n.mentions[strconv.Itoa(at.ID)] = name
		size += len(name)
	}
	for _, a := range m.Attachments {
		if name := line.One(a.Name); name != "" {
			n.attached[a.ID] = name
			size += len(name)
		}
	}
	return n, size
}

// messageText is the text of a message, with the names of mentioned people and attached files. A tag may stand for any name, any
// number of times, so the text is bounded while it is written; the rest is left out.
func messageText(ctx context.Context, m graph.Message) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	names, size := namesOf(m)
	w := &textWriter{most: min(maxMessageText, textPerByte*(len(m.Body.Content)+size)+textBeside)}
	if strings.EqualFold(m.Body.ContentType, "html") {
		htmlText(w, m.Body.Content, names)
	} else {
		w.write(m.Body.Content)
	}
	text := strings.TrimSpace(w.String())
	others := &textWriter{most: w.most - len(text)}
	for _, a := range m.Attachments {
		name := line.One(a.Name)
		if _, is := names.written[name]; is || name == "" || a.ContentType != "reference" {
			continue
		}
		names.written[name] = struct{}{}
		others.write("\n[file: " + name + "]")
	}
	return strings.TrimSpace(text + others.String()), nil
}

func textHash(title string, sections []chunk.Section) string {
	h := sha256.New()
	h.Write([]byte(textVersion + "\x00" + title))
	for _, s := range sections {
		h.Write([]byte("\x00" + s.Text))
	}
	return hex.EncodeToString(h.Sum(nil))
}
