package extract

import (
	"bytes"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// boms are the byte order marks of the Unicode Standard, section 23.8; longer ones first, since that of
// UTF-32LE begins with that of UTF-16LE.
var boms = []struct {
	mark     string
	encoding encoding.Encoding
}{
	{"\x00\x00\xfe\xff", utf32.UTF32(utf32.BigEndian, utf32.ExpectBOM)},
	{"\xff\xfe\x00\x00", utf32.UTF32(utf32.LittleEndian, utf32.ExpectBOM)},
	{"\xfe\xff", unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM)},
	{"\xff\xfe", unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM)},
}

const (
	// controlSample is how much is looked at to tell text from data.
	controlSample = 64 << 10
	// controlShare: text has less than one control character in so many bytes. A stray NUL is cleaned,
	// a program is refused.
	controlShare = 100
)

// decode returns content as UTF-8, or an *Unsupported if it is not text. It may return content itself.
func decode(content []byte, hint Hint) ([]byte, error) {
	if bom, ok := bytes.CutPrefix(content, []byte("\xef\xbb\xbf")); ok {
		content = bom
	}
	for _, b := range boms {
		if bytes.HasPrefix(content, []byte(b.mark)) {
			decoded, err := b.encoding.NewDecoder().Bytes(content)
			if err != nil || isBinary(decoded) {
				return nil, &Unsupported{MediaType: "application/octet-stream"}
			}
			return decoded, nil
		}
	}
	if magic := documentMagic(content); magic != "" {
		return nil, &Unsupported{MediaType: magic}
	}
	valid := utf8.Valid(content)
	if valid && !hasControls(content) {
		return content, nil
	}
	if detected := mimetype.Detect(content); !isText(detected) && !detected.Is("application/octet-stream") {
		return nil, &Unsupported{MediaType: bare(detected.String())}
	}
	if isBinary(content) {
		return nil, &Unsupported{MediaType: "application/octet-stream"}
	}
	// ISO-2022-JP and its kin are valid UTF-8 that holds escapes.
	if valid && bytes.IndexByte(content, 0x1b) < 0 {
		return content, nil
	}
	guess, name, certain := charset.DetermineEncoding(content, hint.MediaType)
	if name == "utf-8" || valid && !certain {
		return content, nil
	}
	decoded, err := guess.NewDecoder().Bytes(content)
	if err != nil {
		return bytes.ToValidUTF8(content, []byte("\uFFFD")), nil
	}
	return decoded, nil
}

// documentMagic recognises documents whose beginning is plain ASCII, and may be nothing else.
func documentMagic(content []byte) string {
	for prefix, mediaType := range map[string]string{
		"%PDF-": "application/pdf", `{\rtf`: "text/rtf", "%!PS-": "application/postscript",
	} {
		if bytes.HasPrefix(content, []byte(prefix)) {
			return mediaType
		}
	}
	return ""
}

func isText(m *mimetype.MIME) bool {
	for ; m != nil; m = m.Parent() {
		if m.Is("text/plain") {
			return true
		}
	}
	return false
}

func hasControls(content []byte) bool {
	for _, b := range content[:min(len(content), controlSample)] {
		if isControl(b) {
			return true
		}
	}
	return false
}

func isBinary(content []byte) bool {
	sample := content[:min(len(content), controlSample)]
	controls := 0
	for _, b := range sample {
		if isControl(b) && b != 0x1b {
			controls++
		}
	}
	return controls > 1+len(sample)/controlShare
}

func isControl(b byte) bool {
	return b < ' ' && b != '\n' && b != '\r' && b != '\t' && b != '\f' && b != '\b' || b == 0x7f
}
