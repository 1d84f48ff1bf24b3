package teams

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// slack is how far the first delta reaches back before the listing began: clocks of a large service differ.
const slack = 5 * time.Minute

// messages reads everything once, and then changes.
func (s *syncer) messages(ctx context.Context) error {
	if s.state.Delta == "" && !s.state.Listed {
		if err := s.list(ctx); err != nil {
			return err
		}
	}
	return s.delta(ctx)
}

// list reads all messages of the channel.
func (s *syncer) list(ctx context.Context) error {
	s.expect()
	for {
		link := s.state.Listing
		if link == "" {
			link = s.api.URL(s.channel("/messages"), url.Values{
				"$top": {strconv.Itoa(s.opts.PageSize)}, "$expand": {"replies"},
			})
		}
		page, at, err := s.api.Messages(ctx, link)
		if err != nil {
			return fmt.Errorf("list messages: %w", err)
		}
		s.result.Pages++
		s.tick(at)
		if s.state.Since == "" {
			if at.IsZero() {
				return errors.New("list messages: the answer does not say the time")
			}
			s.state.Since = at.Add(-slack).UTC().Format(time.RFC3339)
		}
		if err := s.threads(ctx, page.Value); err != nil {
			return err
		}
		if page.Next == "" {
			break
		}
		if page.Next == link {
			return errors.New("list messages: a page leads to itself")
		}
		if err := s.api.CheckLink(page.Next); err != nil {
			return fmt.Errorf("list messages: %w", err)
		}
		s.state.Listing = page.Next
		if err := s.checkpoint(ctx); err != nil {
			return err
		}
	}
	for id := range s.missing {
		if err := s.removeThread(ctx, id); err != nil {
			return err
		}
	}
	s.missing, s.stand = nil, nil
	s.sink.EndListing()
	s.state.Listing, s.state.Listed = "", true
	return s.checkpoint(ctx)
}

// expect notes what a listing must show: the threads that are stored and that were not shown by the part of it that an earlier
// sync has listed. Only its mark tells that: what semantic has refused, or given up, has neither token nor hash, as what nobody has
// listed.
func (s *syncer) expect() {
	begins := s.state.Listing == ""
	if begins {
		s.sink.BeginListing()
	}
	s.missing, s.stand = map[string]struct{}{}, nil
	for id, k := range s.known {
		if _, file := split(id); !file && (begins || !k.Seen) {
			s.missing[id] = struct{}{}
		}
	}
}

// removeOrphans removes attachments whose thread is not stored: a sync died between the two, or their deletion was given up.
func (s *syncer) removeOrphans(ctx context.Context) error {
	s.mu.Lock()
	var orphans []string
	for id := range s.known {
		thread, file := split(id)
		if _, stored := s.known[thread]; file && !stored {
			orphans = append(orphans, id)
		}
	}
	s.mu.Unlock()
	for _, id := range orphans {
		if err := s.remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// tick takes the service's time.
func (s *syncer) tick(at time.Time) {
	if at.After(s.now) {
		s.now = at
	}
}
