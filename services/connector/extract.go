package connector

import (
	"context"

	"github.com/echomind/sync/internal/extract"
	"github.com/echomind/sync/services/connector/graph"
)

// text reads content for the sources.
type text struct{}

// Extract turns content into text.
func (text) Extract(ctx context.Context, content []byte, name, mediaType string) (graph.Text, error) {
	read, err := extract.Extract(ctx, content, extract.Hint{MediaType: mediaType, Name: name})
	if err != nil {
		return graph.Text{}, err
	}
	return graph.Text{MediaType: read.MediaType, Sections: read.Sections, Hash: read.ContentHash()}, nil
}

// Version changes with what can be read.
func (text) Version() string { return extract.Version }
