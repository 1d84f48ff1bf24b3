package teams

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/echomind/sync/internal/room"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/again"
)

// attachment is an attached file that is to be read.
type attachment struct {
	id, name, url string
}

// filesOf removes the attachments that a thread has no more, and returns those that are to be read. What is stored is
// left to the changes of the library; only what could not be read before is tried again.
func (s *syncer) filesOf(ctx context.Context, thread string, messages []graph.Message) ([]attachment, error) {
	var due []attachment
	here := map[string]struct{}{}
	if !s.cfg.NoAttachments {
		for _, m := range messages {
			for _, a := range m.Attachments {
				id := thread + "/" + clipID(a.ID)
				if _, had := here[id]; had || a.ContentType != "reference" || a.ContentURL == "" || a.ID == "" {
					continue
				}
				here[id] = struct{}{}
				k, stored := s.stored(id)
				f, failed := parseFailure(k)
				if s.state.Drive != "" && (!stored || k.VersionToken == "" && (!failed || f.again(s.opts.Extract.Version()))) {
					due = append(due, attachment{id: id, name: a.Name, url: a.ContentURL})
				}
			}
		}
	}
	for _, id := range s.attachments(thread) {
		if _, still := here[id]; !still {
			if err := s.remove(ctx, id); err != nil {
				return nil, err
			}
		}
	}
	return due, nil
}

func clipID(id string) string {
	if len(id) > 500 {
		return graph.Short(id)
	}
	return url.PathEscape(id)
}

// file resolves and reads an attachment.
func (s *syncer) file(ctx context.Context, a attachment) error {
	item, err := s.api.Shared(ctx, a.url)
	switch {
	case graph.IsGone(err) || err == nil && item.Deleted != nil:
		return s.goneFile(ctx, a.id, a.name, a.url)
	case err != nil:
		return s.unasked(ctx, a.id, graph.Item{Name: a.name, WebURL: a.url}, err)
	case item.Parent.DriveID != s.state.Drive || item.IsFolder():
		return s.remove(ctx, a.id) // it lies elsewhere, where the people in the channel may have no right to read
	}
	thread, _ := split(a.id)
	k, stored := s.stored(a.id)
	if _, place := s.placing[thread]; place && stored && k.VersionToken == "" && k.ContentHash == "" {
		return s.failFile(ctx, a.id, item, &graph.Unreadable{Reason: again.Waits})
	}
	return s.item(ctx, a.id, item)
}

// unasked fails an attached file that cannot be asked for.
func (s *syncer) unasked(ctx context.Context, id string, item graph.Item, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if graph.EndsSync(err) {
		return fmt.Errorf("find an attachment: %w", err)
	}
	return s.failFile(ctx, id, item, &graph.Unreadable{Reason: graph.Reason(err), Trouble: !graph.IsRefused(err)})
}

// goneFile removes an attached file that was not there before either, or that may be what the library has said is gone. Any other stays until it is not there again: a library answers so
// for a moment, too.
func (s *syncer) goneFile(ctx context.Context, id, name, url string) error {
	k, stored := s.stored(id)
	f, failed := parseFailure(k)
	if !stored || again.Goes(failed && f.hash == goneHash, s.isFresh(id)) || s.told && itemOf(k) == "" {
		return s.lose(ctx, id, url)
	}
	return s.failFile(ctx, id, graph.Item{ID: itemOf(k), Name: name, WebURL: url}, &graph.Unreadable{Reason: reasonGone})
}

// item brings an attached file up to date.
func (s *syncer) item(ctx context.Context, id string, item graph.Item) error {
	now := fileToken{item: item.ID, version: graph.VersionOf(item)}
	stored, _ := s.stored(id)
	old, ok := parseFile(stored.VersionToken)
	now.version = now.version.Merge(old.version)
	switch {
	case ok && now == old:
		s.unchanged.Add(1)
		return nil
	case ok && now.version.SameContent(old.version) && !s.isFresh(id):
		return s.touchFile(ctx, id, item, now, stored.ContentHash)
	}
	size := item.Size
	if s.reader.Refusal(item) != "" {
		size = 0
	}
	place, err := s.opts.Room.Take(ctx, size, nil)
	if err != nil {
		return err
	}
	defer place.Leave()
	text, fresh, err := s.reader.Read(ctx, s.state.Drive, item)
	var unreadable *graph.Unreadable
	switch {
	case errors.Is(err, graph.ErrVanished):
		return s.goneFile(ctx, id, item.Name, item.WebURL)
	case errors.As(err, &unreadable):
		return s.failFile(ctx, id, fresh, unreadable)
	case err != nil:
		return err
	}
	s.troubles.Ends()
	now.version = graph.VersionOf(fresh).Merge(now.version)
	if ok && stored.ContentHash == text.Hash && !s.isFresh(id) {
		return s.touchFile(ctx, id, fresh, now, text.Hash)
	}
	chunks := chunk.Split(text.Sections, s.opts.Chunk)
	if err := worker.Oversize(chunks); err != nil {
		return s.failFile(ctx, id, fresh, &graph.Unreadable{Reason: err.Error(), Content: true})
	}
	place.Hold(room.Of(chunks))
	return s.send(ctx, worker.Document{
		SourceID: id, Title: fresh.Name, URL: fresh.WebURL, MediaType: text.MediaType, ContentHash: text.Hash,
		VersionToken: now.String(), Chunks: chunks,
	})
}

func (s *syncer) touchFile(ctx context.Context, id string, item graph.Item, now fileToken, hash string) error {
	doc := worker.Document{
		SourceID: id, Title: item.Name, URL: item.WebURL, MediaType: item.MediaType(), ContentHash: hash,
		VersionToken: now.String(),
	}
	s.touched.Add(1)
	s.remember(doc)
	return s.sink.Touch(ctx, doc)
}

func (s *syncer) failFile(ctx context.Context, id string, item graph.Item, why *graph.Unreadable) error {
	f := failure{kind: ofReading, item: item.ID, hash: graph.Short(item.ETag, item.Name, why.Reason)}
	if why.Content {
		f.kind, f.hash = ofContent+s.opts.Extract.Version(), graph.Short(item.ETag, item.Name)
	}
	if why.Reason == reasonGone {
		f.hash = goneHash
	}
	doc := worker.Document{
		SourceID: id, Title: item.Name, URL: item.WebURL, MediaType: item.MediaType(), ContentHash: f.String(),
		Err: strings.Join(strings.Fields(why.Reason), " "),
	}
	if stored, ok := s.stored(id); ok && stored.VersionToken == "" && stored.ContentHash == doc.ContentHash {
		s.unchanged.Add(1)
		return nil
	}
	if why.Trouble {
		if err := s.troubles.Goes(ctx, s.answers); err != nil {
			return fmt.Errorf("%w; the last: %w", err, why)
		}
	}
	return s.send(ctx, doc)
}

// answers asks for the channel's folder in its library.
func (s *syncer) answers(ctx context.Context) error {
	_, err := s.api.Item(ctx, s.state.Drive, s.state.Folder)
	if graph.IsGone(err) || graph.IsRefused(err) {
		return nil // the next sync finds out, when it asks for what has changed in it
	}
	return err
}

// fileToken is what is remembered with an attached file: as its version token, "f1 item ctag hash etag".
type fileToken struct {
	item    string
	version graph.Version
}

const fileVersion = "f1"

func (f fileToken) String() string {
	return fileVersion + " " + url.QueryEscape(f.item) + " " + f.version.String()
}

func parseFile(token string) (fileToken, bool) {
	words := strings.Split(token, " ")
	if len(words) != 5 || words[0] != fileVersion {
		return fileToken{}, false
	}
	id, err := url.QueryUnescape(words[1])
	return fileToken{item: id, version: graph.ParseVersion(words[2:])}, err == nil
}

// failure is what is remembered of an attached file that could not be read: as its content hash, "kind item hash".
type failure struct{ kind, item, hash string }

const (
	// reasonGone is said of what is stored and not there; where it is not there at the next sync either, it is removed.
	reasonGone = again.Away
	goneHash   = "gone"

	ofReading = "read"
	ofContent = "content" // followed by the version of the extraction
)

func (f failure) String() string { return f.kind + " -" + url.QueryEscape(f.item) + " " + f.hash }

// again tells whether it may be readable now.
func (f failure) again(version string) bool { return f.kind != ofContent+version }

func parseFailure(k worker.Known) (failure, bool) {
	words := strings.Split(k.ContentHash, " ")
	if k.VersionToken != "" || len(words) != 3 || words[0] != ofReading && !strings.HasPrefix(words[0], ofContent) {
		return failure{}, false
	}
	id, err := url.QueryUnescape(strings.TrimPrefix(words[1], "-"))
	return failure{kind: words[0], item: id, hash: words[2]}, err == nil
}

// itemOf is the drive item of a stored attachment; empty where it is not known.
func itemOf(k worker.Known) string {
	if f, ok := parseFile(k.VersionToken); ok {
		return f.item
	}
	f, _ := parseFailure(k)
	return f.item
}
