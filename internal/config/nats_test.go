package config

import "testing"

func TestAnswersArriveBelowAnInboxOfTheUsersOwn(t *testing.T) {
	for _, c := range []struct {
		access  NATSAccess
		url, is string
	}{
		{NATSAccess{NATSUser: "chunker"}, "nats://nats:4222", "_INBOX_chunker"},
		{NATSAccess{}, "nats://semantic:secret@a:4222,nats://semantic:secret@b:4222", "_INBOX_semantic"},
		{NATSAccess{NATSUser: "chunker"}, "nats://semantic:secret@a:4222", "_INBOX_semantic"}, // it is the URL's user who connects
		{NATSAccess{NATSUser: "chunker", NATSInboxPrefix: "answers.chunker"}, "nats://nats:4222", "answers.chunker"},
		{NATSAccess{NATSCredsFile: "user.creds"}, "nats://nats:4222", "_INBOX"},
		{NATSAccess{NATSUser: "a user.of>ours"}, "nats://nats:4222", "_INBOX"}, // no part of a subject
		{NATSAccess{}, "nats:4222", "_INBOX"},
	} {
		if got := c.access.Inbox(c.url); got != c.is {
			t.Errorf("inbox %s, want %s", got, c.is)
		}
	}
}
