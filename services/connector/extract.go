package connector

import (
	"context"
	"strconv"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/internal/extract"
)

// textReader reads content for the sources.
type textReader struct{ reader extract.Reader }

// textReader is for one sync. Its owner has a share of the children.
func (s *service) textReader(run *worker.Run) textReader {
	return textReader{extract.In(s.pool.Share(ownerOf(run)))}
}

// ownerOf is the key by which children and memory are shared: all syncs of one user get no more than one sync of another.
func ownerOf(run *worker.Run) string { return strconv.Itoa(int(run.Request().UserId)) }

// Extract turns content into text.
func (t textReader) Extract(ctx context.Context, content []byte, name, mediaType string) (source.Content, error) {
	read, err := t.reader.Extract(ctx, content, extract.Hint{MediaType: mediaType, Name: name})
	read.Title = "" // people know a file by its name
	return read, err
}

// OfContent tells whether an error of Extract says something of the content, and nothing of the machine.
func (t textReader) OfContent(err error) bool { return extract.OfContent(err) }

// Version changes with what can be read.
func (t textReader) Version() string { return t.reader.Version() }
