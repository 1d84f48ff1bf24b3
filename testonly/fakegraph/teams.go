package fakegraph

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

type channel struct {
	team, id, folder string // folder is the drive item of its files
	messages         map[string]*message
}

type message struct {
	id, replyTo               string
	author, body, subject     string
	created, modified         time.Time
	edited, deleted           *time.Time
	kind                      string
	attachments               []map[string]any
	mentions                  []map[string]any
	seq                       int64 // of the last change of its thread that deltas report; roots only
	removed, blocked, reacted bool
	chain                     time.Time // the last change in its thread
}

// NewChannel makes a channel whose files are in a folder.
func (s *Server) NewChannel(team, id, folder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[team+"/"+id] = &channel{team: team, id: id, folder: folder, messages: map[string]*message{}}
}

func (s *Server) channel(id string) *channel {
	for _, c := range s.channels {
		if c.id == id {
			return c
		}
	}
	panic("no channel " + id)
}

// Post is a message as it is sent.
type Post struct {
	Author, Subject, HTML string
	// Mentions are the names that <at id="n"> in HTML stands for.
	Mentions []string
	// Files are the web URLs of attached files, by name.
	Files map[string]string
	// System makes it an event of the channel's, such as a member added.
	System bool
}

// Say posts a message, as a reply if to is not empty, and returns its id.
func (s *Server) Say(channelID, to string, p Post) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channel(channelID)
	s.change()
	m := &message{replyTo: to, kind: "message", author: p.Author, created: s.now, id: strconv.FormatInt(s.now.UnixMilli()+s.seq, 10)}
	if p.System {
		m.kind, m.author = "unknownFutureValue", ""
	}
	c.messages[m.id] = m
	s.fill(m, p)
	s.touched(c, m)
	return m.id
}

func (s *Server) fill(m *message, p Post) {
	m.subject, m.body, m.attachments, m.mentions = p.Subject, p.HTML, nil, nil
	for i, name := range p.Mentions {
		m.mentions = append(m.mentions, map[string]any{"id": i, "mentionText": name,
			"mentioned": map[string]any{"user": map[string]any{"displayName": name}}})
	}
	names := make([]string, 0, len(p.Files))
	for name := range p.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		id := "guid-of-" + name
		m.attachments = append(m.attachments, map[string]any{"id": id, "contentType": "reference",
			"contentUrl": p.Files[name], "name": name})
		if !strings.Contains(m.body, id) {
			m.body += fmt.Sprintf(`<attachment id="%s"></attachment>`, id)
		}
	}
}

// touched moves a thread on in the delta.
func (s *Server) touched(c *channel, m *message) {
	m.modified = s.now
	root := m
	if m.replyTo != "" {
		root = c.messages[m.replyTo]
	}
	root.chain = s.now
	if root == m || !s.RepliesHidden {
		root.seq = s.seq
	}
}

// Edit changes a message's content.
func (s *Server) Edit(channelID, id string, p Post) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channel(channelID)
	m := c.messages[id]
	s.change()
	s.fill(m, p)
	now := s.now
	m.edited = &now
	s.touched(c, m)
}

// Retract deletes a message softly: it stays without its content.
func (s *Server) Retract(channelID, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channel(channelID)
	m := c.messages[id]
	s.change()
	now := s.now
	m.deleted, m.body, m.attachments, m.mentions = &now, "", nil, nil
	s.touched(c, m)
}

// Remove takes a root message away with its thread, as a retention policy does.
func (s *Server) Remove(channelID, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channel(channelID)
	s.change()
	c.messages[id].removed = true
	s.touched(c, c.messages[id])
}

// React adds a reaction: the message's modification moves, its content does not.
func (s *Server) React(channelID, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channel(channelID)
	s.change()
	c.messages[id].reacted = true
	s.touched(c, c.messages[id])
}

// Block has a data loss policy hide a message.
func (s *Server) Block(channelID, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channel(channelID)
	s.change()
	c.messages[id].blocked = true
	s.touched(c, c.messages[id])
}

// URL is where people see a file.
func (s *Server) URL(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.webURL(s.items[id])
}

// routeChannel answers teams/{team}/channels/{channel}/...
func (s *Server) routeChannel(w http.ResponseWriter, r *http.Request, p []string) {
	c := s.channels[p[1]+"/"+p[3]]
	if c == nil || p[2] != "channels" {
		fail(w, http.StatusNotFound, "NotFound")
		return
	}
	here := s.api.URL + r.URL.EscapedPath()
	rest := strings.Join(p[4:], "/")
	switch {
	case rest == "filesFolder":
		answer(w, s.render(s.items[c.folder], "", false))
	case rest == "messages":
		s.listMessages(w, r, c, here)
	case rest == "messages/delta":
		s.messageDelta(w, r, c, here)
	case len(p) == 6 && p[4] == "messages":
		if m := c.messages[p[5]]; m != nil && !m.removed && m.replyTo == "" {
			answer(w, s.renderMessage(c, m, false, here))
			return
		}
		fail(w, http.StatusNotFound, "NotFound")
	case len(p) == 7 && p[4] == "messages" && p[6] == "replies":
		s.listReplies(w, r, c, p[5], here)
	default:
		fail(w, http.StatusBadRequest, "invalidRequest")
	}
}

func (s *Server) roots(c *channel, take func(*message) bool) []*message {
	var all []*message
	for _, m := range c.messages {
		if m.replyTo == "" && take(m) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *message) int { return cmp.Or(cmp.Compare(a.seq, b.seq), strings.Compare(a.id, b.id)) })
	return all
}

// messageDelta answers as "chatMessage: delta" says: threads of the last eight months, by their last change.
func (s *Server) messageDelta(w http.ResponseWriter, r *http.Request, c *channel, here string) {
	query := r.URL.Query()
	top, _ := strconv.Atoi(query.Get("$top"))
	at := cursor{Epoch: s.epoch, Scope: query.Get("$filter") + "|" + query.Get("$expand"), Top: top}
	token := query.Get("$skiptoken") + query.Get("$deltatoken")
	if token != "" {
		var ok bool
		if at, ok = parseCursor(token); !ok {
			fail(w, http.StatusBadRequest, "invalidRequest")
			return
		}
		if at.Epoch != s.epoch {
			fail(w, http.StatusGone, "syncStateNotFound")
			return
		}
	}
	filter, expand, _ := strings.Cut(at.Scope, "|")
	var since time.Time
	if filter != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, strings.TrimPrefix(filter, "lastModifiedDateTime gt ")); err != nil {
			fail(w, http.StatusBadRequest, "invalidRequest")
			return
		}
	}
	if at.Upto == 0 {
		at.Upto = s.seq
	}
	due := s.roots(c, func(m *message) bool {
		recent := m.chain.After(s.now.AddDate(0, -8, 0)) && m.chain.After(since)
		fresh := m.seq > max(at.After, at.Since) && m.seq <= at.Upto
		return recent && fresh && (!m.removed || at.Since > 0)
	})
	values, page := []any{}, map[string]any{}
	most := min(s.pageSize(at.Top), 50)
	for i, m := range due {
		if i == most {
			break
		}
		values = append(values, s.renderMessage(c, m, expand == "replies", strings.TrimSuffix(here, "/delta")+"/"+m.id))
		at.After = m.seq
	}
	if len(due) > most {
		page["@odata.nextLink"] = here + "?$skiptoken=" + at.String()
	} else {
		page["@odata.deltaLink"] = here + "?$deltatoken=" +
			cursor{Epoch: s.epoch, Scope: at.Scope, Since: max(at.Upto, 1), Top: at.Top}.String()
	}
	page["value"] = values
	answer(w, page)
}

// listMessages answers as "List channel messages" says.
func (s *Server) listMessages(w http.ResponseWriter, r *http.Request, c *channel, here string) {
	query := r.URL.Query()
	all := s.roots(c, func(m *message) bool { return !m.removed })
	slices.SortFunc(all, func(a, b *message) int { return strings.Compare(b.id, a.id) })
	top, _ := strconv.Atoi(query.Get("$top"))
	if top == 0 {
		top = 20
	}
	most := min(s.pageSize(top), 50)
	values, page := []any{}, map[string]any{}
	before := query.Get("$skiptoken")
	for i, m := range all {
		if before != "" && m.id >= before {
			continue
		}
		values = append(values, s.renderMessage(c, m, query.Get("$expand") == "replies", here+"/"+m.id))
		if len(values) == most && i+1 < len(all) {
			page["@odata.nextLink"] = fmt.Sprintf("%s?$top=%d&$expand=%s&$skiptoken=%s", here, top,
				url.QueryEscape(query.Get("$expand")), m.id)
			break
		}
	}
	page["value"] = values
	answer(w, page)
}

// listReplies answers as "List channel message replies" says.
func (s *Server) listReplies(w http.ResponseWriter, r *http.Request, c *channel, root, here string) {
	if m := c.messages[root]; m == nil || m.removed {
		fail(w, http.StatusNotFound, "NotFound")
		return
	}
	all := s.replies(c, root)
	from, _ := strconv.Atoi(r.URL.Query().Get("$skiptoken"))
	most := min(s.pageSize(50), 50)
	values, page := []any{}, map[string]any{}
	for i := min(from, len(all)); i < min(len(all), from+most); i++ {
		values = append(values, s.renderMessage(c, all[i], false, ""))
	}
	if from+most < len(all) {
		page["@odata.nextLink"] = fmt.Sprintf("%s?$skiptoken=%d", here, from+most)
	}
	page["value"] = values
	answer(w, page)
}

func (s *Server) replies(c *channel, root string) []*message {
	var all []*message
	for _, m := range c.messages {
		if m.replyTo == root && !m.removed {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *message) int { return strings.Compare(a.id, b.id) })
	return all
}
