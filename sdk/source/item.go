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

// What is stored as the hash of what has no text: of an item that only stands for its place, and of one that was read.
const (
	noText     = "no text"
	noTextRead = "no text in it"
)

func isNoText(hash string) bool { return hash == noText || hash == noTextRead }

// noMemo is stored with an item that has none: so what could not be stored is told from what was stored under another configuration.
var noMemo = json.RawMessage(`{}`)

// candidate is an item that was given, and what is to be stored of it whatever it holds.
type candidate struct {
	Item
	memo json.RawMessage
	meta string // hash of what people see of it, and of the memo
}

// Item brings one item up to date: nothing is done where it is stored as it is; a new title, URL or memo is stored; anything else is read,
// by a goroutine, and stored, or fails with its reason. The error is one that ends the sync, of this item or of one given before.
func (s *Sync) Item(ctx context.Context, it Item) error {
	c, err := asCandidate(it)
	if err != nil || !s.named(it.ID) {
		return err
	}
	if err := s.idle(ctx, it.ID); err != nil {
		return err
	}
	if !c.hidden() {
		s.listed.Add(1)
	}
	s.shows(it.ID)
	if err := s.bounded(2); err != nil {
		return err
	}
	if done, err := s.withoutReading(ctx, c); done || err != nil {
		return err
	}
	return s.start(ctx, c)
}

func asCandidate(it Item) (candidate, error) {
	c := candidate{Item: it, memo: noMemo}
	if most := worker.MaxTokenBytes - metaBytes - 1; len(c.Version) > most || !storable(c.Version) {
		c.Version = short(c.Version)
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
	c.meta = short(it.Title, it.URL, string(c.memo))
	return c, nil
}

func storable(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// named tells whether an item's id can be stored. One that cannot is left out: it must not end the sync of all the others.
func (s *Sync) named(id string) bool {
	if (worker.Document{SourceID: id}).Validate() == nil {
		return true
	}
	s.failed.Add(1)
	s.unnamed.Add(1)
	return false
}

// hidden tells whether an item only stands for its place.
func (c candidate) hidden() bool { return c.Read == nil && c.Unread == "" }

func (c candidate) token() string { return c.meta + " " + c.Version }

func (c candidate) document() worker.Document {
	return worker.Document{
		SourceID: c.ID, Title: c.Title, URL: c.URL, MediaType: c.MediaType, VersionToken: c.token(), Memo: c.memo,
	}
}

// withoutReading does what needs no reading, and tells whether that was all.
func (s *Sync) withoutReading(ctx context.Context, c candidate) (done bool, err error) {
	e, known := s.entry(c.ID)
	same := known && e.VersionToken == c.token() && (c.Version != "" || c.hidden()) && c.hidden() == (e.ContentHash == noText)
	switch of := e.describe(s.opts.Reading); {
	case c.Unread != "":
		return true, s.fail(ctx, c, &Unreadable{Reason: c.Unread, Content: true})
	case same:
		s.stands(c.ID, !c.hidden())
		return true, nil
	case c.hidden():
		return true, s.hide(ctx, c, noText)
	case known && of.Failed == InContent && c.Version != "" && e.ContentHash == c.inContent(s.opts.Reading):
		s.stands(c.ID, true)
		return true, nil
	case known && of.Version != "" && of.Version == c.Version && !isNoText(of.Hash) && c.Title != "" && !e.fresh:
		return true, s.touch(ctx, c.document(), of.Hash)
	case s.listing && !s.looks && of.Failed == NotStored && e.isRefused(c) && !s.readsAgain(c.ID):
		s.stands(c.ID, true)
		return true, nil
	}
	return false, nil
}

// isRefused tells whether an item is as it was when it could not be stored.
func (e entry) isRefused(c candidate) bool {
	return c.Version != "" && (e.RefusedToken == c.token() || e.RefusedToken == "" && bytes.Equal(e.Memo, c.memo))
}

// hide stores an item that only stands for its place. A document that people had is deleted by that.
func (s *Sync) hide(ctx context.Context, c candidate, hash string) error {
	if e, _ := s.entry(c.ID); e.describe(s.opts.Reading).Found {
		s.deleted.Add(1)
	}
	doc := c.document()
	doc.ContentHash = hash
	return s.send(ctx, doc)
}

// start has an item read.
func (s *Sync) start(ctx context.Context, c candidate) error {
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

// idle waits until an item is not being read.
func (s *Sync) idle(ctx context.Context, id string) error {
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

// Grown is what Item.Read returns that has found more content than Item.Bytes: it is called again once there is room for so much.
type Grown struct{ Bytes int64 }

func (g *Grown) Error() string { return fmt.Sprintf("it has grown to %d bytes", g.Bytes) }

// maxGrown bounds how often an item is read that grows.
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
	var place Place
	var content Content
	err := func() (err error) {
		defer s.bytes.Release(weight)
		if s.opts.Room != nil {
			if place, err = s.opts.Room.Enter(ctx, max(c.Bytes, 0)); err != nil {
				return err
			}
		}
		return caught.Do(func() (err error) {
			content, err = c.Read(ctx)
			return err
		})
	}()
	if place != nil {
		defer place.Leave()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if content.Now != nil {
		fresh, bad := c.asRead(*content.Now)
		if bad != nil {
			return bad
		}
		c = fresh
	}
	if err == nil && c.Unread != "" {
		err = &Unreadable{Reason: c.Unread, Content: true}
	}
	if err != nil {
		return s.unread(ctx, c, err)
	}
	if !content.AtHand {
		s.trouble.ends()
	}
	return s.keep(ctx, c, content, place)
}

// asRead is the candidate as it was when it was read.
func (c candidate) asRead(now Item) (candidate, error) {
	now.ID, now.Bytes, now.Unread, now.Read = c.ID, c.Bytes, c.Unread, c.Read
	return asCandidate(now)
}

// unread draws the consequences of an item that was not read.
func (s *Sync) unread(ctx context.Context, c candidate, err error) error {
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
			err = s.notThere(ctx, c)
		}
		s.unshown(c.ID)
		return err
	case errors.Is(err, ErrNoText):
		if e, _ := s.entry(c.ID); e.VersionToken == c.token() && e.ContentHash == noTextRead {
			s.stands(c.ID, true)
			return nil
		}
		return s.hide(ctx, c, noTextRead)
	case errors.Is(err, ErrAway):
		return s.notThere(ctx, c)
	}
	return err
}

// keep stores what was read.
func (s *Sync) keep(ctx context.Context, c candidate, content Content, place Place) error {
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
		content.Hash = short(content.Hash)
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
	if place != nil {
		place.Hold(chunk.Bytes(doc.Chunks))
	}
	s.put.Add(1)
	return s.send(ctx, doc)
}

// touch stores what people see of a document whose content stands. It must not be one that this run has sent: what a run sends is stored
// in any order, or refused, and the content to keep may not be there yet.
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

// remember keeps what is stored as of now: an item may be given again. put says that it was not only touched: what was may be touched again.
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

// Remove removes an item that the place says is gone, or that the connector has no more to do with.
func (s *Sync) Remove(ctx context.Context, id string) error {
	if err := s.idle(ctx, id); err != nil {
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
