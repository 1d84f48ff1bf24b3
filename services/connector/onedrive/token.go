package onedrive

import (
	"net/url"
	"strings"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

// token is what is remembered with a document: as its version token, "v1 ctag hash etag folders".
type token struct {
	graph.Version
	folders []step
}

// step is a folder above a document: its id, and a hash of its name, which is part of the document's URL.
type step struct{ id, name string }

const (
	tokenVersion = "v1"
	// cut stands for the folders that did not fit.
	cut = "…"
	// maxHash is what Document.ContentHash may hold.
	maxHash = 255
)

func nameHash(name string) string { return graph.Short(name)[:8] }

func tokenOf(item graph.Item, folders []step) token {
	return token{Version: graph.VersionOf(item), folders: folders}
}

// same tells whether nothing at all has changed.
func (t token) same(o token) bool {
	return t.SameContent(o.Version) && t.ETag == o.ETag && t.String() == token{Version: t.Version, folders: o.folders}.String()
}

func (t token) String() string {
	head := tokenVersion + " " + t.Version.String() + " "
	return head + trail(t.folders, worker.MaxTokenBytes-len(head))
}

func parseToken(text string) (token, bool) {
	words := strings.Split(text, " ")
	if len(words) != 5 || words[0] != tokenVersion {
		return token{}, false
	}
	return token{Version: graph.ParseVersion(words[1:4]), folders: parseTrail(words[4])}, true
}

// failure is what is remembered of a document that could not be read: as its content hash, "kind hash folders".
// A failure of the content is not tried again until the content, or our reading of it, changes; one of reading is
// tried again at every sync.
type failure struct {
	kind, hash string
	folders    []step
}

const (
	ofReading = "read"
	ofContent = "content" // followed by the version of the extraction
)

func (f failure) String() string {
	head := f.kind + " " + f.hash + " "
	return head + trail(f.folders, maxHash-len(head))
}

func parseFailure(text string) (failure, bool) {
	words := strings.Split(text, " ")
	if len(words) != 3 || words[0] != ofReading && !strings.HasPrefix(words[0], ofContent) {
		return failure{}, false
	}
	return failure{kind: words[0], hash: words[1], folders: parseTrail(words[2])}, true
}

// foldersOf are the folders that are remembered with a stored document, nearest first.
func foldersOf(k worker.Known) ([]step, bool) {
	if t, ok := parseToken(k.VersionToken); ok {
		return t.folders, true
	}
	f, ok := parseFailure(k.ContentHash)
	return f.folders, ok
}

// trail writes folders, nearest first, in at most most bytes: what does not fit is asked for when it is needed.
func trail(folders []step, most int) string {
	var b strings.Builder
	b.WriteByte('/')
	for _, f := range folders {
		if f.id == cut {
			b.WriteString(cut)
			break
		}
		one := url.QueryEscape(f.id) + "~" + f.name + "/"
		if b.Len()+len(one)+len(cut) > most {
			b.WriteString(cut)
			break
		}
		b.WriteString(one)
	}
	return b.String()
}

func parseTrail(text string) []step {
	text = strings.Trim(text, "/")
	if text == "" {
		return nil
	}
	var folders []step
	for _, one := range strings.Split(text, "/") {
		at := strings.LastIndexByte(one, '~') // an id may hold one, a name does not
		if at < 0 {
			return append(folders, step{id: cut})
		}
		id, err := url.QueryUnescape(one[:at])
		if err != nil {
			return append(folders, step{id: cut})
		}
		folders = append(folders, step{id: id, name: one[at+1:]})
	}
	return folders
}
