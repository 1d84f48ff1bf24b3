package source

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

// The hashes of items without text: of an item that only stands for its place, and of an item that was read.
const (
	noText     = "no text"
	noTextRead = "no text in it"
)

func isNoText(hash string) bool { return hash == noText || hash == noTextRead }

// noMemo is stored with an item without a memo: it distinguishes an item that could not be stored from an item of another
// configuration.
var noMemo = json.RawMessage(`{}`)

// candidate is an item that was given, with its memo and metadata as they are stored.
type candidate struct {
	Item
	memo json.RawMessage
	meta string // hash of title, URL and memo
}

// Item brings one item up to date. An item that is stored as it is needs nothing. A new title, URL or memo is stored. Any other
// item is read by a goroutine, and stored, or fails with its reason. The error ends the sync; it may come from an item that was
// given before.
func (s *Sync) Item(ctx context.Context, it Item) error {
	c, err := newCandidate(it)
	if err != nil || !s.hasStorableID(it.ID) {
		return err
	}
	if err := s.awaitReading(ctx, it.ID); err != nil {
		return err
	}
	if !c.hasNoContent() {
		s.listed.Add(1)
	}
	s.markShown(it.ID)
	if err := s.checkMaxItems(2); err != nil {
		return err
	}
	if done, err := s.updateWithoutReading(ctx, c); done || err != nil {
		return err
	}
	return s.startReading(ctx, c)
}

func newCandidate(it Item) (candidate, error) {
	c := candidate{Item: it, memo: noMemo}
	if most := worker.MaxTokenBytes - metaBytes - 1; len(c.Version) > most || !storable(c.Version) {
		c.Version = Short(c.Version)
	}
	if it.Memo != nil {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(it.Memo); err != nil {
			return c, fmt.Errorf("encode the memo of %q: %w", it.ID, err)
		}
		c.memo = bytes.TrimSpace(text.Bytes())
		if err := (worker.Document{SourceID: "memo", Memo: c.memo}).Validate(); err != nil {
			c.memo, c.Unread = noMemo, "what has to be remembered of it cannot be stored: "+err.Error()
		}
	}
	c.meta = Short(it.Title, it.URL, string(c.memo))
	return c, nil
}

func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// hasStorableID tells whether an item's id can be stored. An item with a bad id is left out: it must not end the sync of all other
// items.
func (s *Sync) hasStorableID(id string) bool {
	if (worker.Document{SourceID: id}).Validate() == nil {
		return true
	}
	s.failed.Add(1)
	s.badIDs.Add(1)
	return false
}

// hasNoContent tells whether there is nothing of an item to read, such as of a folder.
func (c candidate) hasNoContent() bool { return c.Read == nil && c.Unread == "" }

func (c candidate) versionToken() string { return c.meta + " " + c.Version }

func (c candidate) document() worker.Document {
	return worker.Document{
		SourceID: c.ID, Title: c.Title, URL: c.URL, MediaType: c.MediaType, VersionToken: c.versionToken(), Memo: c.memo,
	}
}

// updateWithoutReading does what needs no reading, and tells whether that was everything.
func (s *Sync) updateWithoutReading(ctx context.Context, c candidate) (done bool, err error) {
	e, known := s.entry(c.ID)
	same := known && e.VersionToken == c.versionToken() && (c.Version != "" || c.hasNoContent()) && c.hasNoContent() == (e.ContentHash == noText)
	switch of := e.describe(s.opts.Reading); {
	case c.Unread != "":
		return true, s.fail(ctx, c, &Unreadable{Reason: c.Unread, Content: true})
	case same:
		s.markUnchanged(c.ID, !c.hasNoContent())
		return true, nil
	case c.hasNoContent():
		return true, s.storeWithoutContent(ctx, c, noText)
	case known && of.Failed == InContent && c.Version != "" && e.ContentHash == c.inContent(s.opts.Reading):
		s.markUnchanged(c.ID, true)
		return true, nil
	case known && of.Version != "" && of.Version == c.Version && !isNoText(of.Hash) && c.Title != "" && !e.fresh:
		return true, s.touch(ctx, c.document(), of.Hash)
	case s.listing && !s.looks && of.Failed == NotStored && e.isRefused(c) && !s.isRetried(c.ID):
		s.markUnchanged(c.ID, true)
		return true, nil
	}
	return false, nil
}

// isRefused tells whether an item is as it was when it could not be stored.
func (e entry) isRefused(c candidate) bool {
	return c.Version != "" && (e.RefusedToken == c.versionToken() || e.RefusedToken == "" && bytes.Equal(e.Memo, c.memo))
}

// storeWithoutContent stores an item that has no content. A document that people could find is deleted by that.
func (s *Sync) storeWithoutContent(ctx context.Context, c candidate, hash string) error {
	if e, _ := s.entry(c.ID); e.describe(s.opts.Reading).Found {
		s.deleted.Add(1)
	}
	doc := c.document()
	doc.ContentHash = hash
	return s.send(ctx, doc)
}

// startReading has a goroutine read an item.
func (s *Sync) startReading(ctx context.Context, c candidate) error {
	if s.broken != nil {
		return s.broken
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if s.group == nil {
		s.group, s.grouped = errgroup.WithContext(s.ctx)
		s.group.SetLimit(s.opts.Workers)
	}
	if s.grouped.Err() != nil {
		return cmp.Or(s.Wait(), context.Cause(s.ctx))
	}
	grouped, done := s.grouped, make(chan struct{})
	s.mu.Lock()
	s.reading[c.ID] = done
	s.mu.Unlock()
	s.group.Go(func() error {
		defer func() {
			s.mu.Lock()
			delete(s.reading, c.ID)
			s.mu.Unlock()
			close(done)
		}()
		return caught.Do(func() error { return s.read(grouped, c) })
	})
	return nil
}

// awaitReading waits until an item is not being read.
func (s *Sync) awaitReading(ctx context.Context, id string) error {
	s.mu.Lock()
	done := s.reading[id]
	s.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Grown is the error of an Item.Read that has found more content than Item.Bytes: Read is called again once there is room for so
// much.
type Grown struct{ Bytes int64 }

func (g *Grown) Error() string { return fmt.Sprintf("it has grown to %d bytes", g.Bytes) }

// maxGrown bounds how often an item is read again because it grows.
const maxGrown = 3

func (s *Sync) read(ctx context.Context, c candidate) error {
	for range maxGrown {
		var grown *Grown
		if err := s.readOnce(ctx, c); !errors.As(err, &grown) {
			return err
		}
		c.Bytes = grown.Bytes
	}
	return s.fail(ctx, c, &Unreadable{Reason: "it grows while it is read; it is tried again"})
}

func (s *Sync) readOnce(ctx context.Context, c candidate) error {
	weight := min(max(c.Bytes, 1), s.opts.InFlightBytes)
	if err := s.bytes.Acquire(ctx, weight); err != nil {
		return err
	}
	var reservation Reservation
	var content Content
	err := func() (err error) {
		defer s.bytes.Release(weight)
		if s.opts.Room != nil {
			if reservation, err = s.opts.Room.Reserve(ctx, max(c.Bytes, 0)); err != nil {
				return err
			}
		}
		return caught.Do(func() (err error) {
			content, err = c.Read(ctx)
			return err
		})
	}()
	if reservation != nil {
		defer reservation.Release()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if content.Now != nil {
		fresh, bad := c.atReading(*content.Now)
		if bad != nil {
			return bad
		}
		c = fresh
	}
	if err == nil && c.Unread != "" {
		err = &Unreadable{Reason: c.Unread, Content: true}
	}
	if err != nil {
		return s.failRead(ctx, c, err)
	}
	if !content.AtHand {
		s.streak.reset()
	}
	return s.storeContent(ctx, c, content, reservation)
}

// atReading is the candidate as it was when it was read.
func (c candidate) atReading(now Item) (candidate, error) {
	now.ID, now.Bytes, now.Unread, now.Read = c.ID, c.Bytes, c.Unread, c.Read
	return newCandidate(now)
}

// failRead handles an item that was not read.
func (s *Sync) failRead(ctx context.Context, c candidate, err error) error {
	var why *Unreadable
	var broken *caught.Panic
	switch {
	case errors.As(err, &broken):
		return s.fail(ctx, c, &Unreadable{Reason: broken.Error()})
	case errors.As(err, &why):
		return s.fail(ctx, c, why)
	case errors.Is(err, ErrGone):
		if _, known := s.entry(c.ID); !known {
			return nil
		}
		var err error
		if !s.opts.Unresumed { // should this run die
			err = s.failAway(ctx, c)
		}
		s.unmarkShown(c.ID)
		return err
	case errors.Is(err, ErrNoText):
		if e, _ := s.entry(c.ID); e.VersionToken == c.versionToken() && e.ContentHash == noTextRead {
			s.markUnchanged(c.ID, true)
			return nil
		}
		return s.storeWithoutContent(ctx, c, noTextRead)
	case errors.Is(err, ErrAway):
		return s.failAway(ctx, c)
	}
	return err
}

// storeContent stores the content that was read.
func (s *Sync) storeContent(ctx context.Context, c candidate, content Content, reservation Reservation) error {
	doc := c.document()
	if content.Title != "" {
		doc.Title = content.Title
	}
	if content.MediaType != "" {
		doc.MediaType = content.MediaType
	}
	switch {
	case content.Hash == "":
		content.Hash = hashOf(content)
	case len(content.Hash) > maxHashBytes || !storable(content.Hash) || isNoText(content.Hash):
		content.Hash = Short(content.Hash)
	}
	e, known := s.entry(c.ID)
	if of := e.describe(s.opts.Reading); known && of.Failed == None && of.Hash == content.Hash && !e.fresh {
		return s.touch(ctx, doc, content.Hash)
	}
	doc.ContentHash = content.Hash
	doc.Chunks = chunk.Split(content.Sections, s.opts.Chunk)
	if err := worker.Oversize(doc.Chunks); err != nil {
		return s.fail(ctx, c, &Unreadable{Reason: err.Error(), Content: true})
	}
	if reservation != nil {
		reservation.Resize(chunk.Bytes(doc.Chunks))
	}
	s.put.Add(1)
	return s.send(ctx, doc)
}

// touch stores the metadata of a document whose content has not changed. It must not be a document that this run has sent: a run's
// messages are stored in any order, or refused, and the content to keep may not be there yet.
func (s *Sync) touch(ctx context.Context, doc worker.Document, hash string) error {
	doc.ContentHash = hash
	s.touched.Add(1)
	s.remember(doc, false)
	return s.store.Touch(ctx, doc)
}

func (s *Sync) send(ctx context.Context, doc worker.Document) error {
	s.remember(doc, true)
	return s.store.Put(ctx, doc)
}

// remember notes what is stored now: an item may be given again. put says that it was not only touched: a touched item may be
// touched again.
func (s *Sync) remember(doc worker.Document, put bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.stored[doc.SourceID]
	if e.missing {
		e.missing = false
		s.missing--
	}
	e.Found = doc.Err == "" || e.Found && !isNoText(e.ContentHash)
	e.VersionToken, e.ContentHash, e.Memo = doc.VersionToken, doc.ContentHash, doc.Memo
	e.fresh = e.fresh || put
	e.shown = e.shown || doc.Err == ""
	s.stored[doc.SourceID] = e
}

func (s *Sync) entry(id string) (entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, is := s.stored[id]
	return e, is
}

// Remove removes an item that the place says is gone, or that the connector does not cover any more.
func (s *Sync) Remove(ctx context.Context, id string) error {
	if err := s.awaitReading(ctx, id); err != nil {
		return err
	}
	return s.remove(ctx, id)
}

func (s *Sync) remove(ctx context.Context, id string) error {
	s.mu.Lock()
	e, known := s.stored[id]
	if e.missing {
		s.missing--
	}
	delete(s.stored, id)
	delete(s.lost, id)
	s.mu.Unlock()
	if !known {
		return nil
	}
	if !isNoText(e.ContentHash) {
		s.deleted.Add(1)
	}
	return s.store.Delete(ctx, id)
}
