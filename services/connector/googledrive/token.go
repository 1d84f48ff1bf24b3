package googledrive

import (
	"strings"

	"github.com/echomind/sync/sdk/worker"
)

// kind is what a stored document is of.
type kind string

const (
	aFile     kind = "f"
	aFolder   kind = "d"
	aShortcut kind = "s"
)

// record is what is remembered with a document: where it is, and what it is. It is the version token,
// "v1 kind parents content meta target", or of a document that failed the content hash,
// "cause hash kind parents target".
type record struct {
	kind    kind
	parents []string
	// content is what the content is called; none of a folder, and of a shortcut whose target's text is not stored
	// with it.
	content string
	// meta is what people see.
	meta string
	// target is a shortcut's.
	target string
	// cause and hash are of a failure.
	cause cause
	hash  string
}

// cause is why a document failed. One that lies in its content is not tried again until the content, or our reading
// of it, changes; others are tried again at every sync.
type cause string

const (
	inReading cause = "read"
	inContent cause = "text"
)

const (
	recordVersion = "v1"
	// maxParents is how many parents are remembered. Items have had one since 2020 ("Single-parenting behavior
	// changes"); older ones may have more.
	maxParents = 3
	// maxHash is what Document.ContentHash may hold.
	maxHash = 255
)

func (r record) token() string {
	return strings.Join([]string{recordVersion, string(r.kind), joinIDs(r.parents), dash(r.content), dash(r.meta), dash(r.target)}, " ")
}

func (r record) failure() string {
	write := func() string {
		return strings.Join([]string{string(r.cause), r.hash, string(r.kind), joinIDs(r.parents), dash(r.target)}, " ")
	}
	for len(write()) > maxHash && len(r.parents) > 1 {
		r.parents = r.parents[:len(r.parents)-1]
	}
	return write()
}

// recordOf reads what is remembered; none of a document of another configuration.
func recordOf(k worker.Known) (record, bool) {
	if k.VersionToken != "" {
		f := strings.Split(k.VersionToken, " ")
		if len(f) != 6 || f[0] != recordVersion {
			return record{}, false
		}
		return record{kind: kind(f[1]), parents: splitIDs(f[2]), content: undash(f[3]), meta: undash(f[4]), target: undash(f[5])}, true
	}
	f := strings.Split(k.ContentHash, " ")
	if len(f) != 5 || cause(f[0]) != inReading && cause(f[0]) != inContent {
		return record{}, false
	}
	return record{cause: cause(f[0]), hash: f[1], kind: kind(f[2]), parents: splitIDs(f[3]), target: undash(f[4])}, true
}

func (r record) failed() bool { return r.cause != "" }

// samePlace tells whether neither what people see nor where it is has changed.
func (r record) samePlace(o record) bool {
	return r.meta == o.meta && joinIDs(r.parents) == joinIDs(o.parents) && r.target == o.target
}

func joinIDs(ids []string) string { return dash(strings.Join(ids, ",")) }

func splitIDs(s string) []string {
	if s = undash(s); s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func dash(s string) string {
	if s == "" {
		return "~" // no id and no hash holds one
	}
	return s
}

func undash(s string) string {
	if s == "~" {
		return ""
	}
	return s
}
