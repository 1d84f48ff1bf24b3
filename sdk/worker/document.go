package worker

import (
	"encoding/json"

	"github.com/echomind/sync/sdk/chunk"
)

// Document is one thing of the source that is to be stored: a file, a page, a thread.
//
// Either Chunks or Err is set. A document with an Err is stored with its reason and without a version
// token, so that it is fetched again at the next sync; it never fails the run.
type Document struct {
	// SourceID identifies the document within its connector and never changes while the document lives
	// (a path, a canonical URL, a provider's item id). At most MaxSourceIDBytes bytes.
	SourceID string
	// Title and URL are shown to people beside a search hit.
	Title string
	URL   string
	// MediaType is what the content turned out to be, e.g. "text/markdown".
	MediaType string
	// ContentHash is a hash of the content, in hex. It tells a changed document from a merely touched one.
	ContentHash string
	// VersionToken is what the source calls this version (ETag, cTag, size and time). It is opaque here.
	VersionToken string
	// Links are what is needed to go on from this document when it has not changed (a page's links).
	Links []string
	// Memo is what the source wants back from Known, for example the folders above a file: any JSON value of at most MaxMemoBytes
	// bytes (spaces between its parts do not count), nested at most 100 levels deep, without NUL; nil = nothing. Each Put and Touch
	// replaces it. It is stored with a document that has an Err as well, and also where the document itself is refused, for
	// example because its owner's quota is full. It counts towards no quota, and search does not see it.
	Memo json.RawMessage
	// Chunks are the pieces to embed, in reading order.
	Chunks []chunk.Chunk
	// Err says in one line why the document could not be read. Chunks are ignored when it is set.
	Err string
}

// Known is what is stored of a document already.
type Known struct {
	// VersionToken is empty when the document failed, or was stored under an earlier configuration of
	// the connector: it must then be fetched again.
	VersionToken string
	// ContentHash is what the document was put with; of a failed one too. It is empty when the document was
	// stored under an earlier configuration.
	ContentHash string
	// RefusedToken is the version token that the document was last put with, where it was not stored because its owner had no room.
	RefusedToken string
	// Found says that a search may find something of it: also an earlier version, where the last failed, or was refused.
	Found bool
	// Memo is that of the last Put or Touch, also where that document failed, was refused or was given up. A deletion that was
	// given up leaves it as it was. It is nil where there was none, or the document was stored under an earlier configuration.
	Memo json.RawMessage
	// Seen says that an earlier run of the listing that this run goes on with has shown the document, up to the
	// checkpoint that this run began from. At the end of a listing of everything, what is known, was not Seen and was not
	// shown by this run either is gone from the source. Always false in a run that begins its listing.
	Seen bool
}
