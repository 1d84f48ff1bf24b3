package crawl

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/echomind/sync/sdk/worker"
)

// version is the content of a version token, as compact JSON: the validators of a page's last response (RFC 9110, 8.8). A page
// without any has the token noValidators, because an empty token means "not stored".
type version struct {
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

const noValidators = "{}"

// maxValidatorBytes bounds an ETag that is kept; with a longer one the page is compared by content. A byte may take six in
// JSON, and a token has at most worker.MaxTokenBytes.
const maxValidatorBytes = 256

// tokenOf makes a version token from a response's header.
func tokenOf(h http.Header) string {
	var v version
	if etag := h.Get("ETag"); len(etag) <= maxValidatorBytes && !strings.ContainsFunc(etag, func(r rune) bool { return r < ' ' || r > '~' }) {
		v.ETag = etag
	}
	if modified := h.Get("Last-Modified"); modified != "" {
		if _, err := http.ParseTime(modified); err == nil {
			v.Modified = modified
		}
	}
	token, err := json.Marshal(v)
	if err != nil {
		return noValidators
	}
	return string(token)
}

// askConditionally makes a request conditional on a change since the known version, and tells whether it could.
func askConditionally(h http.Header, known worker.Known) bool {
	var v version
	if known.VersionToken == "" || known.ContentHash == "" || json.Unmarshal([]byte(known.VersionToken), &v) != nil {
		return false
	}
	if v.ETag != "" {
		h.Set("If-None-Match", v.ETag)
	}
	if v.Modified != "" {
		h.Set("If-Modified-Since", v.Modified)
	}
	return v != version{}
}

// hashOf hashes what is stored of a page. One JSON value a line keeps the parts apart.
func hashOf(doc worker.Document) string {
	if doc.ContentHash != "" {
		return doc.ContentHash
	}
	parts := []any{doc.Title}
	for _, c := range doc.Chunks {
		parts = append(parts, c.HeadingPath, c.Text)
	}
	return hashOfJSON(parts...)
}

func hashOfJSON(parts ...any) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	for _, part := range parts {
		_ = enc.Encode(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// sameLinks compares links as sets: a page that only reorders them has not changed.
func sameLinks(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
