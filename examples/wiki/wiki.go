package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
)

// wiki is a source. Its API:
//
//	GET /api/pages?after=ID           {"pages": [page, …], "next": "ID"}           every page, by id; no next: it is the last
//	GET /api/changes?since=N          {"changes": [{"id", "page"}, …], "next": N}  no page: it was deleted; the same N: there are no more
//	GET /api/changes?since=latest     {"next": N}
//	GET /api/pages/ID                 page with its text; 404: there is none
//
// 410 says that a place in the changes is too old to go on from, 401 that the wiki does not know us.
type wiki struct {
	url    string
	client *http.Client
}

// page is one of the wiki's.
type page struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Path     string `json:"path"`
	Revision int64  `json:"revision"`
	Text     string `json:"text,omitempty"`
}

// cursor is where the next sync goes on.
type cursor struct {
	// Listing says that not all pages were listed so far, and After up to where they were.
	Listing bool   `json:"listing,omitempty"`
	After   string `json:"after,omitempty"`
	// Changes is the place in the changes, taken before the listing began: what changes meanwhile is among them.
	// It is written as a string, as numbers above 2^53 do not come back as they were.
	Changes int64 `json:"changes,string"`
}

const (
	maxAnswerBytes = 16 << 20
	latest         = -1
)

var (
	errNoPage  = errors.New("there is no such page")
	errTooOld  = errors.New("the changes do not go back so far")
	errAccount = errors.New("the wiki does not let us in")
	errOlder   = errors.New("the wiki gives an older text than it has listed; it is read again")
)

// List lists all pages at the first sync, and what has changed at each later one.
func (w *wiki) List(ctx context.Context, s *source.Sync) (any, error) {
	at := cursor{Changes: latest}
	if err := s.Cursor(&at); err != nil {
		return nil, err
	}
	switch {
	case at.Changes == latest:
		if err := w.begin(ctx, s, &at); err != nil {
			return nil, err
		}
	case at.Listing:
		s.ResumeListing()
	}
	if err := w.pages(ctx, s, &at); err != nil {
		return nil, err
	}
	err := w.changes(ctx, s, &at)
	if errors.Is(err, errTooOld) {
		if err = w.begin(ctx, s, &at); err == nil {
			err = w.pages(ctx, s, &at)
		}
	}
	return at, err
}

// begin begins a listing of everything.
func (w *wiki) begin(ctx context.Context, s *source.Sync, at *cursor) error {
	var answer struct{ Next int64 }
	if err := w.get(ctx, "/api/changes?since=latest", &answer); err != nil {
		if s.First() && errors.Is(err, errNoPage) {
			return worker.Permanent(fmt.Errorf("url: %q is no wiki: %w", w.url, err))
		}
		return err
	}
	s.BeginListing()
	*at = cursor{Listing: true, Changes: answer.Next}
	return nil
}

func (w *wiki) pages(ctx context.Context, s *source.Sync, at *cursor) error {
	for at.Listing {
		var answer struct {
			Pages []page
			Next  string
		}
		if err := w.get(ctx, "/api/pages?after="+url.QueryEscape(at.After), &answer); err != nil {
			return fmt.Errorf("list pages: %w", err)
		}
		for _, p := range answer.Pages {
			if err := s.Item(ctx, w.item(p)); err != nil {
				return err
			}
		}
		if at.After, at.Listing = answer.Next, answer.Next != ""; !at.Listing {
			if err := s.EndListing(ctx, nil); err != nil {
				return err
			}
		}
		if err := s.Checkpoint(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

func (w *wiki) changes(ctx context.Context, s *source.Sync, at *cursor) error {
	for {
		var answer struct {
			Changes []struct {
				ID   string
				Page *page
			}
			Next int64
		}
		if err := w.get(ctx, "/api/changes?since="+strconv.FormatInt(at.Changes, 10), &answer); err != nil {
			return fmt.Errorf("list changes: %w", err)
		}
		for _, change := range answer.Changes {
			var err error
			if change.Page == nil {
				err = s.Remove(ctx, change.ID)
			} else {
				err = s.Item(ctx, w.item(*change.Page))
			}
			if err != nil {
				return err
			}
		}
		if answer.Next == at.Changes {
			return nil
		}
		at.Changes = answer.Next
		if err := s.Checkpoint(ctx, at); err != nil {
			return err
		}
	}
}

// Look asks for pages that failed before.
func (w *wiki) Look(ctx context.Context, s *source.Sync, ids []string) error {
	for _, id := range ids {
		var p page
		err := w.get(ctx, "/api/pages/"+url.PathEscape(id), &p)
		switch {
		case errors.Is(err, errNoPage):
			_, err = s.MarkAway(ctx, source.Item{ID: id, Title: "A page"})
		case err != nil:
			err = s.FailAlone(ctx, err)
		default:
			err = s.Item(ctx, w.item(p))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *wiki) item(p page) source.Item {
	return source.Item{
		ID: p.ID, Title: p.Title, URL: w.url + p.Path, MediaType: "text/markdown", Version: strconv.FormatInt(p.Revision, 10),
		Bytes: maxAnswerBytes / 16, Read: func(ctx context.Context) (source.Content, error) { return w.read(ctx, p) },
	}
}

// read fetches the text of a page. What it is by now may be newer than what was listed.
func (w *wiki) read(ctx context.Context, listed page) (source.Content, error) {
	var p page
	err := w.get(ctx, "/api/pages/"+url.PathEscape(listed.ID), &p)
	if err == nil && p.Revision < listed.Revision {
		err = errOlder
	}
	switch {
	case errors.Is(err, errNoPage):
		return source.Content{}, source.ErrAway // a list says for certain whether it is gone
	case errors.Is(err, errAccount):
		return source.Content{}, err
	case err != nil:
		return source.Content{}, &source.Unreadable{Reason: err.Error(), Trouble: true}
	}
	now := w.item(p)
	sum := sha256.Sum256([]byte(p.Text))
	return source.Content{Hash: hex.EncodeToString(sum[:]), Sections: []chunk.Section{{Text: p.Text}}, Now: &now}, nil
}

// answers asks the wiki whether it is there at all.
func (w *wiki) answers(ctx context.Context) error {
	var nothing struct{}
	return w.get(ctx, "/api/changes?since=latest", &nothing)
}

func (w *wiki) get(ctx context.Context, path string, v any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(w.url, "/")+path, nil)
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return errors.Unwrap(err) // without the address, which may hold a secret
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return errNoPage
	case http.StatusGone:
		return errTooOld
	case http.StatusUnauthorized:
		return worker.Permanent(errAccount)
	default:
		return fmt.Errorf("the wiki answered %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err == nil && len(body) > maxAnswerBytes {
		err = fmt.Errorf("the wiki's answer has more than %d bytes", maxAnswerBytes)
	}
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	return err
}
