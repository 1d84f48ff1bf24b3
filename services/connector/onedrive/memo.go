package onedrive

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

// memo is stored with each file.
type memo struct {
	// Version is the file's source.Item.Version: the name of its content that was known first. CTag and Hash are the names that are
	// known now: an answer may have one of them, or both.
	Version string `json:"v,omitempty"`
	CTag    string `json:"c,omitempty"`
	Hash    string `json:"h,omitempty"`
	// In are the folders above the file, nearest first, without the connector's own: "id~hash of the name".
	In []string `json:"in,omitempty"`
	// Cut says that more folders are above those: they did not fit, or could not be asked for. They are asked for when they are
	// needed.
	Cut bool `json:"cut,omitempty"`
}

// step is a folder above a file: its id, and a hash of its name, which is part of the file's URL. The hash is empty where the name
// in the URL is uncertain.
type step struct{ id, name string }

// memoOverhead is the size of a memo without its folders, at most: three names of 16 letters, and the fields' names.
const memoOverhead = 128

func nameHash(name string) string { return source.Short(name)[:8] }

func memoOf(of source.Stored) memo { return source.MemoOf[memo](of) }

// newMemo is the memo of a file below some folders. cut says that there are more folders above the last one.
func newMemo(steps []step, cut bool) memo {
	m := memo{Cut: cut}
	left := worker.MaxMemoBytes - memoOverhead
	for _, s := range steps {
		one := s.id + "~" + s.name
		written, _ := json.Marshal(one) // a string always encodes
		if left -= len(written) + 1; left < 0 {
			m.Cut = true
			break
		}
		m.In = append(m.In, one)
	}
	return m
}

// withContent adds the names of an item's content. Where before has the same content, its Version is kept, and the names of both
// are merged.
func (m memo) withContent(item graph.Item, before memo) memo {
	now := graph.VersionOf(item)
	m.Version = cmp.Or(now.CTag, now.Hash)
	if old := (graph.Version{CTag: before.CTag, Hash: before.Hash}); now.SameContent(old) {
		m.Version, now = before.Version, now.Merge(old)
	}
	m.CTag, m.Hash = now.CTag, now.Hash
	return m
}

func (m memo) steps() []step {
	steps := make([]step, len(m.In))
	for i, one := range m.In {
		at := strings.LastIndexByte(one, '~') // an id may hold one, the hash of a name does not
		steps[i] = step{id: one[:max(at, 0)], name: one[at+1:]}
	}
	return steps
}
