package graph

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Version names an item's content and metadata by short hashes: 100,000 of them are held in memory.
//
// The delta of OneDrive for Business does not list the cTag ("driveItem: delta", Remarks), while that of personal
// OneDrive and a request for the item do. So a content is known by its cTag, by the hash of its bytes, or both.
type Version struct{ CTag, Hash, ETag string }

// VersionOf is the Version of an item.
func VersionOf(item Item) Version {
	var v Version
	if item.CTag != "" {
		v.CTag = Short(item.CTag)
	}
	if item.File != nil {
		// One kind of hash: an answer may list them all, another only one.
		for _, hash := range []string{item.File.Hashes.QuickXor, item.File.Hashes.SHA256, item.File.Hashes.SHA1} {
			if hash != "" {
				v.Hash = Short(hash)
				break
			}
		}
	}
	v.ETag = Short(item.ETag, item.Name, item.WebURL)
	if v.CTag == "" && v.Hash == "" {
		v.CTag = Short("eTag", item.ETag)
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
		if v.CTag == "" {
			v.CTag = old.CTag
		}
		if v.Hash == "" {
			v.Hash = old.Hash
		}
	}
	return v
}

// String writes a version in three words.
func (v Version) String() string { return dash(v.CTag) + " " + dash(v.Hash) + " " + dash(v.ETag) }

// ParseVersion reads three words.
func ParseVersion(words []string) Version {
	undash := func(s string) string { return strings.TrimPrefix(s, "-") }
	return Version{CTag: undash(words[0]), Hash: undash(words[1]), ETag: undash(words[2])}
}

// dash marks a value, so that an empty one can be told apart.
func dash(s string) string { return "-" + s }

// Short is a hash of some texts in 16 letters.
func Short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}
