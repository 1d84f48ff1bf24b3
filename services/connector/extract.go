package connector

import (
	"context"

	"github.com/echomind/sync/internal/extract"
	"github.com/echomind/sync/services/connector/graph"
)

// text reads content for the sources.
type text struct{ reader extract.Reader }

// text is for one sync, which has a share of the children.
func (s *service) text() text { return text{extract.In(s.pool.Share())} }

// Extract turns content into text.
func (t text) Extract(ctx context.Context, content []byte, name, mediaType string) (graph.Text, error) {
	read, err := t.reader.Extract(ctx, content, extract.Hint{MediaType: mediaType, Name: name})
	if err != nil {
		return graph.Text{}, err
	}
	return graph.Text{MediaType: read.MediaType, Sections: read.Sections, Hash: read.ContentHash()}, nil
}

// OfContent tells whether an error of Extract says something of the content, and nothing of the machine.
func (t text) OfContent(err error) bool { return extract.OfContent(err) }

// Version changes with what can be read.
func (t text) Version() string { return t.reader.Version() }
