package fakegraph

import (
	"regexp"
	"strings"
)

// Said is a message as people in the channel see it.
type Said struct {
	ID, Author, Word string
	Files            map[string]string
}

var tags = regexp.MustCompile(`<attachment[^>]*></attachment>|<[^>]*>`)

// Threads are the visible messages of a channel by thread, in order. Word is the text of the HTML.
func (s *Server) Threads(channelID string) map[string][]Said {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channel(channelID)
	all := map[string][]Said{}
	for _, root := range s.roots(c, func(m *message) bool { return !m.removed }) {
		for _, m := range append([]*message{root}, s.replies(c, root.id)...) {
			if m.deleted != nil || m.blocked || m.kind != "message" {
				continue
			}
			said := Said{ID: m.id, Author: m.author, Word: strings.TrimSpace(tags.ReplaceAllString(m.body, "")), Files: map[string]string{}}
			for _, a := range m.attachments {
				said.Files[a["name"].(string)] = a["contentUrl"].(string)
			}
			all[root.id] = append(all[root.id], said)
		}
	}
	return all
}
