package source

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/echomind/sync/sdk/worker"
)

// Unreadable says why an item cannot be read, in words for its owner.
type Unreadable struct {
	Reason string
	// Content says that the reason lies in the content: it stays until the content, or Options.Reading, changes. An item with any
	// other reason is tried again.
	Content bool
	// Trouble says that the reason may be the connection, and may hold for other items too: see Options.Answers.
	Trouble bool
}

func (u *Unreadable) Error() string { return u.Reason }

// failed is the beginning of the content hash of a failed item: "failed kind …". A failure of content also names Options.Reading.
const failed = "failed "

// describe returns what is stored of an item.
func (e entry) describe(reading string) Stored {
	of := Stored{Seen: e.Seen, Fresh: e.fresh}
	if !bytes.Equal(e.Memo, noMemo) {
		of.Memo = e.Memo
	}
	of.Found = e.Found
	if e.VersionToken != "" {
		of.Found = of.Found && !isNoText(e.ContentHash)
		of.Hash = e.ContentHash
		if len(e.VersionToken) > metaBytes {
			of.Version = e.VersionToken[metaBytes+1:]
		}
		return of
	}
	words := strings.Split(e.ContentHash, " ")
	switch {
	case e.ContentHash == "" && e.Memo == nil:
		of.Failed, of.Found = Unknown, false
	case len(words) < 2 || words[0]+" " != failed: // nothing, or what this engine has not written
		of.Failed = NotStored
	case Failure(words[1]) == listed:
		of.Failed = Reading
	case Failure(words[1]) == InContent && !strings.HasPrefix(e.ContentHash, inContent(reading)):
		of.Failed = Outdated
	default:
		of.Failed = Failure(words[1])
	}
	return of
}

// inContent is the beginning of the hash of a failure of content.
func inContent(reading string) string { return failed + string(InContent) + " v" + reading + " " }

func (c candidate) inContent(reading string) string {
	return inContent(reading) + Short(c.Version, c.meta, c.Unread)
}

func (c candidate) failure(why *Unreadable, reading string) string {
	if why.Content {
		return c.inContent(reading)
	}
	return failed + string(Reading) + " " + Short(c.Version, c.meta, why.Reason)
}

// Fail stores that an item cannot be read. The version that is stored stays, and can be found.
func (s *Sync) Fail(ctx context.Context, it Item, why Unreadable) error {
	c, err := newCandidate(it)
	if err != nil || !s.hasStorableID(it.ID) {
		return err
	}
	if err := s.awaitReading(ctx, it.ID); err != nil {
		return err
	}
	s.markShown(it.ID)
	return s.fail(ctx, c, &why)
}

func (s *Sync) fail(ctx context.Context, c candidate, why *Unreadable) error {
	hash := c.failure(why, s.opts.Reading)
	if e, known := s.entry(c.ID); known && e.VersionToken == "" && e.ContentHash == hash {
		s.markUnchanged(c.ID, true)
		return nil
	}
	if why.Trouble {
		if err := s.streak.add(ctx, s.opts.Answers); err != nil {
			return fmt.Errorf("%w; the last: %w", err, why)
		}
	}
	return s.sendFailure(ctx, c.document(), hash, why.Reason)
}

func (s *Sync) sendFailure(ctx context.Context, doc worker.Document, hash, reason string) error {
	doc.VersionToken, doc.ContentHash = "", hash
	doc.Err = strings.Join(strings.Fields(s.opts.Clean(reason)), " ")
	s.failed.Add(1)
	return s.send(ctx, doc)
}
