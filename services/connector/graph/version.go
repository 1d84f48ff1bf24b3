package graph

import (
	"cmp"

	"github.com/echomind/sync/sdk/source"
)

// Version names an item's content by short hashes: 100,000 of them are held in memory.
//
// The delta of OneDrive for Business does not list the cTag ("driveItem: delta", Remarks), while that of personal
// OneDrive and a request for the item do. So a content is known by its cTag, by the hash of its bytes, or both.
type Version struct{ CTag, Hash string }

// VersionOf is the Version of an item.
func VersionOf(item Item) Version {
	var v Version
	if item.CTag != "" {
		v.CTag = source.Short(item.CTag)
	}
	if item.File != nil {
		// One kind of hash: an answer may list them all, another only one.
		if hash := cmp.Or(item.File.Hashes.QuickXor, item.File.Hashes.SHA256, item.File.Hashes.SHA1); hash != "" {
			v.Hash = source.Short(hash)
		}
	}
	if v.CTag == "" && v.Hash == "" {
		v.CTag = source.Short("eTag", item.ETag)
	}
	return v
}

// SameContent tells whether two versions have the same content, by a name that both have.
func (v Version) SameContent(o Version) bool {
	return v.CTag != "" && v.CTag == o.CTag || v.Hash != "" && v.Hash == o.Hash
}

// Merge adds the names of the same content that only the old version has.
func (v Version) Merge(old Version) Version {
	if v.SameContent(old) {
		v.CTag, v.Hash = cmp.Or(v.CTag, old.CTag), cmp.Or(v.Hash, old.Hash)
	}
	return v
}
