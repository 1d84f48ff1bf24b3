package api

import (
	"bytes"
	"net/http"
	"strings"
)

// sniffBytes is how much of a file is looked at before it is taken.
const sniffBytes = 4096

// marks begin a text in UTF-16 or UTF-32, which has control characters in it.
var marks = [][]byte{{0xef, 0xbb, 0xbf}, {0, 0, 0xfe, 0xff}, {0xfe, 0xff}, {0xff, 0xfe}}

// foreign is what a file surely is that no reader of texts reads, told by how it begins; empty = it may be a text. What is not told here fails as a document.
func foreign(head []byte) string {
	for _, mark := range marks {
		if bytes.HasPrefix(head, mark) {
			return ""
		}
	}
	if bytes.HasPrefix(head, []byte(`{\rtf`)) {
		return "text/rtf"
	}
	kind, _, _ := strings.Cut(http.DetectContentType(head), ";")
	if strings.HasPrefix(kind, "text/") || kind == "application/octet-stream" && isNearlyText(head) {
		return ""
	}
	return kind
}

// isNearlyText says whether there are few control characters: the reader cleans a text of some.
func isNearlyText(head []byte) bool {
	controls := 0
	for _, b := range head {
		if b < ' ' && strings.IndexByte("\n\r\t\f\b\x1b", b) < 0 || b == 0x7f {
			controls++
		}
	}
	return controls <= 1+len(head)/100
}
