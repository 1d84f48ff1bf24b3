package googledrive

import "github.com/echomind/sync/sdk/source"

// kind is the kind of a stored document; "" is a file.
type kind string

const (
	kindFolder   kind = "d"
	kindShortcut kind = "s"
)

// memo is stored with each document and says where it is. It has at most 7,300 bytes: an id has at most 180 in JSON, and the texts
// of a shortcut at most six times maxOwn.
type memo struct {
	Kind kind `json:"k,omitempty"`
	// Parents are the parents, at most maxParents.
	Parents []string `json:"p,omitempty"`
	// Target is the target of a shortcut. Name, Link and Key are the shortcut's own title, address and key to its target; an empty
	// Name says that they are too long, and must be asked for again.
	Target string `json:"t,omitempty"`
	Name   string `json:"n,omitempty"`
	Link   string `json:"l,omitempty"`
	Key    string `json:"y,omitempty"`
	// Waits says that the target has not been looked at since the shortcut was listed.
	Waits bool `json:"w,omitempty"`
}

const (
	// maxParents is how many parents are remembered. Items have had one since 2020 ("Single-parenting behavior changes"); older ones may
	// have more.
	maxParents = 25
	// maxOwn bounds the remembered name, address and key of a shortcut together.
	maxOwn = 400
)

// memoOf is the memo of a stored document; empty for a document of another configuration.
func memoOf(of source.Stored) memo { return source.MemoOf[memo](of) }

// newItem describes an item with its memo, without content.
func newItem(f item, m memo) source.Item {
	return source.Item{ID: f.ID, Title: f.title(), URL: f.Link, MediaType: f.MimeType, Memo: m}
}
