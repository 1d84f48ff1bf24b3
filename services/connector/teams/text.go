package teams

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/services/connector/graph"
)

const (
	// textVersion changes whenever the same thread reads differently, so that all are stored again as they come by.
	textVersion = "1"
	// maxTitle is where a title is cut that is taken from a message, in bytes.
	maxTitle = 100
	// maxThreadBytes ends a thread's text. At 1000 replies of usual length it is a hundredth of that.
	maxThreadBytes = 16 << 20
)

// read turns the messages of a thread into a title and text. Each message is a section that begins with who wrote it
// and when, so that chunks show it.
func read(messages []graph.Message) (title string, sections []chunk.Section) {
	title = titleOf(messages[0])
	at := int64(0)
	for _, m := range messages {
		author := m.From.Name()
		if author == "" {
			author = "Unknown"
		}
		text := author + " (" + m.Created.UTC().Format("2006-01-02 15:04 UTC") + "):\n" + messageText(m) + "\n\n"
		if at+int64(len(text)) > maxThreadBytes {
			break
		}
		sections = append(sections, chunk.Section{HeadingPath: []string{title}, Text: text, Start: at})
		at += int64(len(text))
	}
	return title, sections
}

// titleOf is a message's subject, else its first line.
func titleOf(m graph.Message) string {
	if subject := strings.Join(strings.Fields(m.Subject), " "); subject != "" {
		return subject
	}
	for line := range strings.Lines(messageText(m)) {
		if line = strings.TrimSpace(line); line != "" {
			if len(line) > maxTitle {
				cut := maxTitle
				for !utf8.RuneStart(line[cut]) {
					cut--
				}
				line = line[:cut] + "…"
			}
			return line
		}
	}
	if name := m.From.Name(); name != "" {
		return "Message by " + name
	}
	return "Message"
}

// messageText is what a message says, with the names of who is mentioned and of what is attached.
func messageText(m graph.Message) string {
	mentions := map[string]string{}
	for _, at := range m.Mentions {
		name := at.Text
		if name == "" {
			name = at.Mentioned.Name()
		}
		mentions[itoa(at.ID)] = name
	}
	attached := map[string]string{}
	for _, a := range m.Attachments {
		if a.Name != "" {
			attached[a.ID] = a.Name
		}
	}
	text := m.Body.Content
	if strings.EqualFold(m.Body.ContentType, "html") {
		text = htmlText(text, mentions, attached)
	}
	text = strings.TrimSpace(text)
	for _, a := range m.Attachments {
		if named := "[file: " + a.Name + "]"; a.Name != "" && a.ContentType == "reference" && !strings.Contains(text, named) {
			text += "\n" + named
		}
	}
	return strings.TrimSpace(text)
}

func textHash(title string, sections []chunk.Section) string {
	h := sha256.New()
	h.Write([]byte(textVersion + "\x00" + title))
	for _, s := range sections {
		h.Write([]byte("\x00" + s.Text))
	}
	return hex.EncodeToString(h.Sum(nil))
}
