// Package fakereader reads content in tests: as it is, or not at all.
package fakereader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/source"
)

// Plain reads content as it is, and refuses binary content.
type Plain struct{}

// Extract is the extractor's.
func (Plain) Extract(_ context.Context, content []byte, _, mediaType string) (source.Content, error) {
	if strings.HasPrefix(string(content), "\x00") {
		return source.Content{}, errors.New("binary content is not supported")
	}
	sum := sha256.Sum256(content)
	return source.Content{
		MediaType: mediaType, Hash: hex.EncodeToString(sum[:]), Sections: []chunk.Section{{Text: string(content)}},
	}, nil
}

// Version is the extractor's.
func (Plain) Version() string { return "1" }

// OfContent is so for every error of its own.
func (Plain) OfContent(error) bool { return true }

// Killed is an extractor whose readers are killed before they have read anything.
type Killed struct{ Plain }

// Extract reads nothing.
func (Killed) Extract(context.Context, []byte, string, string) (source.Content, error) {
	return source.Content{}, errors.New("could not be read: its reader was killed")
}

// OfContent is not so.
func (Killed) OfContent(error) bool { return false }
