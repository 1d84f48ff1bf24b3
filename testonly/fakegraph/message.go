package fakegraph

import (
	"net/url"
	"strconv"
	"time"
)

// renderMessage writes a chatMessage. here is its own address, where more replies are found.
func (s *Server) renderMessage(c *channel, m *message, replies bool, here string) map[string]any {
	if m.removed {
		return map[string]any{"id": m.id, "@removed": map[string]any{"reason": "deleted"}}
	}
	out := map[string]any{
		"id": m.id, "replyToId": nil, "messageType": m.kind, "subject": nil, "etag": strconv.FormatInt(m.modified.UnixMilli(), 10),
		"createdDateTime": m.created.Format(time.RFC3339), "lastModifiedDateTime": m.modified.Format(time.RFC3339),
		"lastEditedDateTime": stamp(m.edited), "deletedDateTime": stamp(m.deleted), "from": nil, "reactions": []any{},
		"webUrl":      "https://teams.example/l/message/" + url.PathEscape(c.id) + "/" + m.id,
		"body":        map[string]any{"contentType": "html", "content": m.body},
		"attachments": orEmpty(m.attachments), "mentions": orEmpty(m.mentions), "policyViolation": nil,
	}
	if m.replyTo != "" {
		out["replyToId"] = m.replyTo
	}
	if m.subject != "" {
		out["subject"] = m.subject
	}
	if m.author != "" {
		out["from"] = map[string]any{"user": map[string]any{"id": "u-" + m.author, "displayName": m.author}, "application": nil}
	}
	if m.kind != "message" {
		out["eventDetail"] = map[string]any{"@odata.type": "#microsoft.graph.membersAddedEventMessageDetail"}
		out["body"] = map[string]any{"contentType": "html", "content": "<systemEventMessage/>"}
	}
	if m.reacted {
		out["reactions"] = []any{map[string]any{"reactionType": "like"}}
	}
	if m.blocked {
		out["policyViolation"] = map[string]any{"dlpAction": "notifySender,blockAccess"}
	}
	if replies {
		most := s.MaxReplies
		if most == 0 {
			most = 1000
		}
		all := s.replies(c, m.id)
		values := []any{}
		for _, reply := range all[:min(most, len(all))] {
			values = append(values, s.renderMessage(c, reply, false, ""))
		}
		out["replies"] = values
		if len(all) > most {
			out["replies@odata.nextLink"] = here + "/replies?$skiptoken=" + strconv.Itoa(most)
		}
	}
	return out
}

func stamp(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.Format(time.RFC3339)
}

func orEmpty(all []map[string]any) []map[string]any {
	if all == nil {
		return []map[string]any{}
	}
	return all
}
