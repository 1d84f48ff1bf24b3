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
	// Content says that the reason lies in the content: it stays until the content, or Options.Reading, changes. Any other is tried
	// again.
	Content bool
	// Trouble says that the reason may be the way there, and the same for other items: see Options.Answers.
	Trouble bool
}

func (u *Unreadable) Error() string { return u.Reason }

// What is said of what is not there when it is asked for, and that nothing else has said to be gone.
const awayText = "it is not there now; it is looked for again by the next sync"

// failed begins the content hash of what failed: "failed kind …". Failures of content go on with Options.Reading.
const failed = "failed "

// describe tells what is stored.
func (e entry) describe(reading string) Stored {
	of := Stored{Seen: e.Seen, Fresh: e.fresh}
	if !bytes.Equal(e.Memo, noMemo) {
		of.Memo = e.Memo
	}
	if e.VersionToken != "" {
		of.Hash = e.ContentHash
		if len(e.VersionToken) > metaBytes {
			of.Version = e.VersionToken[metaBytes+1:]
		}
		return of
	}
	words := strings.Split(e.ContentHash, " ")
	switch {
	case e.ContentHash == "" && e.Memo == nil:
		of.Failed = Unknown
	case len(words) < 2 || words[0]+" " != failed: // nothing, or what this engine has not written
		of.Failed = NotStored
	case Failure(words[1]) == InContent && !strings.HasPrefix(e.ContentHash, inContent(reading)):
		of.Failed = Outdated
	default:
		of.Failed = Failure(words[1])
	}
	return of
}

// inContent begins the hash of a failure of content.
func inContent(reading string) string { return failed + string(InContent) + " v" + reading + " " }

func (c candidate) inContent(reading string) string {
	return inContent(reading) + short(c.Version, c.meta, c.Unread)
}

func (c candidate) failure(why *Unreadable, reading string) string {
	if why.Content {
		return c.inContent(reading)
	}
	return failed + string(Reading) + " " + short(c.Version, c.meta, why.Reason)
}

// Fail stores that an item cannot be read. What is stored of it stays, and is found.
func (s *Sync) Fail(ctx context.Context, it Item, why Unreadable) error {
	c, err := asCandidate(it)
	if err != nil {
		return err
	}
	if err := s.idle(ctx, it.ID); err != nil {
		return err
	}
	s.shows(it.ID)
	return s.fail(ctx, c, &why)
}

func (s *Sync) fail(ctx context.Context, c candidate, why *Unreadable) error {
	hash := c.failure(why, s.opts.Reading)
	if e, known := s.entry(c.ID); known && e.VersionToken == "" && e.ContentHash == hash {
		s.stands(c.ID, true)
		return nil
	}
	if why.Trouble {
		if err := s.trouble.goesOn(ctx, s.opts.Answers); err != nil {
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

// Away says that an item is not there, and that nothing else says it is gone. A place answers so for a moment, too: only a list of changes
// and a listing of everything say for certain that something is gone. So what is stored stays, marked as away, and is looked for by
// the next sync (Looker). Where that does not find it either, it is removed. Of very many only some are, and the next sync lists everything.
// Memo may be left out: it stays as it is.
func (s *Sync) Away(ctx context.Context, it Item) (removed bool, err error) {
	c, err := asCandidate(it)
	if err != nil {
		return false, err
	}
	if err := s.idle(ctx, it.ID); err != nil {
		return false, err
	}
	return s.away(ctx, c, false)
}

// away takes an item that is not there. given says that the place has listed it in this sync: then it is looked for again also where
// nothing is stored of it, and never removed.
func (s *Sync) away(ctx context.Context, c candidate, given bool) (removed bool, err error) {
	e, known := s.entry(c.ID)
	if !known && !given {
		return false, nil
	}
	if e.describe(s.opts.Reading).Failed == IsAway {
		if !given && !e.fresh && s.lost.Add(1) <= maxWiped {
			return true, s.remove(ctx, c.ID)
		}
		s.shows(c.ID)
		s.stands(c.ID, true)
		return false, nil
	}
	doc := c.document()
	if c.Memo == nil && e.Memo != nil {
		doc.Memo = e.Memo
	}
	return false, s.sendFailure(ctx, doc, failed+string(IsAway), awayText)
}
