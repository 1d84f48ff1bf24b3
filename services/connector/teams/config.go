// Package teams keeps a channel of Microsoft Teams in sync: one document per thread, and one per attached file.
//
//	config.go   what a connector says
//	sync.go     one sync, and where it goes on
//	listing.go  everything, once, and then the delta of messages
//	again.go    threads that the delta may not report, or that failed
//	thread.go   one thread
//	text.go     what a thread reads like
//	html.go     the text of a message
//	library.go  changes in the channel's folder
//	files.go    one attached file
//
// # Messages
//
// The delta of a channel's messages lists threads of the last eight months only, without their replies unless they are
// expanded ("chatMessage: delta"). So a first sync lists all messages ("List channel messages"), and takes the delta
// from the time at which that began. Of a thread whose replies alone have changed the page says that a filter by time
// finds its reply chain; it does not say that the delta reports it. So the replies of threads that were active within
// recheck_days are asked for at every sync, one request each. Only the first reply in a thread that had no readable text before is
// left to the delta alone.
//
// Reactions change a message's version and modification time, not its text: a thread is known by its text.
//
// # Files
//
// An attachment is a URL ("chatMessageAttachment resource type"). It is resolved by the service ("Access shared
// items"), and read only if it lies in the channel's own folder: an application may read far more than the people in
// the channel, and a URL in a message must not let them read along. The folder's own delta tells which of the attached
// files have changed, or left it.
//
// An attachment is the file that its link leads to. Where the link leads nowhere any more, the attachment is the file that the link
// led to last, as long as that is in the folder: it was renamed. Where there is no such file, the document of the attachment has no
// text, and only remembers its link: the file may come back, and another file may take its name.
package teams

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/echomind/sync/internal/strictjson"
	"github.com/echomind/sync/services/connector/graph"
)

// Bounds and defaults of Config.
const (
	DefaultMaxFileBytes = 8 << 20
	MaxMaxFileBytes     = 32 << 20
	DefaultRecheckDays  = 7
	MaxRecheckDays      = 240
	// NoRecheck as Config.RecheckDays trusts the delta to report threads whose replies have changed.
	NoRecheck  = -1
	maxIDBytes = 256
)

// Config is the configuration of a connector of type teams.
type Config struct {
	graph.Credentials
	// Team is the team's id.
	Team string `json:"team_id"`
	// Channel is the channel's id, as 19:…@thread.tacv2.
	Channel string `json:"channel_id"`
	// NoAttachments leaves attached files out.
	NoAttachments bool `json:"no_attachments,omitempty"`
	// MaxFileBytes is the size up to which an attached file is read. 0 means DefaultMaxFileBytes.
	MaxFileBytes int64 `json:"max_file_bytes,omitempty"`
	// RecheckDays is for how long a thread's replies are asked for at every sync. 0 means DefaultRecheckDays,
	// NoRecheck (-1) never.
	RecheckDays int `json:"recheck_days,omitempty"`
}

// Validate returns every problem of c, joined, or nil. Each names the field, the value and the fix.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct{ name, value, like string }{
		{"team_id", c.Team, "fbe2bf47-16c8-47cf-b4a5-4b9b187c508b"}, {"channel_id", c.Channel, "19:4a95f7d8db4c4e7fae857bcebe0623e6@thread.tacv2"},
	} {
		switch {
		case f.value == "":
			errs = append(errs, fmt.Errorf("%s: it is missing; write the id, as %s", f.name, f.like))
		case len(f.value) > maxIDBytes || strings.ContainsFunc(f.value, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("/?#%\\", r)
		}):
			errs = append(errs, fmt.Errorf("%s: %q is not an id; copy it without its address, as %s", f.name, f.value, f.like))
		}
	}
	errs = append(errs, strictjson.UpTo("max_file_bytes", c.MaxFileBytes, MaxMaxFileBytes, DefaultMaxFileBytes))
	if c.RecheckDays < NoRecheck || c.RecheckDays > MaxRecheckDays {
		errs = append(errs, fmt.Errorf("recheck_days: %d is out of range; use 1 to %d, %d for never, or leave it out for %d",
			c.RecheckDays, MaxRecheckDays, NoRecheck, DefaultRecheckDays))
	}
	return errors.Join(errs...)
}

func (c Config) recheckDays() int { return cmp.Or(c.RecheckDays, DefaultRecheckDays) }
