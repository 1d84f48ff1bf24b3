package source

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"strings"
)

// hashOf tells whether two contents differ.
func hashOf(content Content) string {
	h := sha256.New()
	for _, s := range content.Sections {
		_, _ = io.WriteString(h, strings.Join(s.HeadingPath, "\x00")+"\x00\x00"+s.Text+"\x00")
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// maxHashBytes bounds what is stored as a document's hash.
const maxHashBytes = 255

// metaBytes is the length of what Short returns.
const metaBytes = 16

// Short is a hash of some texts in 16 letters, for versions and memos.
func Short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}
