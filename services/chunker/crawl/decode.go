package crawl

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// content is a decoded body.
type content struct {
	body []byte
	// contentType has charset=utf-8 where body was decoded as text.
	contentType string
	html        bool
}

// decode converts text of any charset to UTF-8, of most bytes at most, and leaves all other content unchanged.
func decode(body []byte, contentType string, most int64) (content, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	sniffed := http.DetectContentType(body)
	sniffedMedia, _, _ := strings.Cut(sniffed, ";")
	if media == "" || media == "application/octet-stream" {
		if !strings.HasPrefix(sniffedMedia, "text/") {
			return content{body: body, contentType: contentType}, nil
		}
		media = sniffedMedia
	}
	if !textual(media) || !textual(sniffedMedia) && sniffedMedia != "application/octet-stream" {
		return content{body: body, contentType: contentType}, nil
	}
	decoded, err := toUTF8(body, params["charset"], most)
	return content{
		body:        decoded,
		contentType: media + "; charset=utf-8",
		html:        media == "text/html" || media == "application/xhtml+xml",
	}, err
}

func textual(media string) bool {
	if strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+xml") || strings.HasSuffix(media, "+json") {
		return true
	}
	switch media {
	case "application/json", "application/xml", "application/javascript", "application/yaml", "application/x-yaml",
		"application/x-ndjson", "application/toml", "application/csv":
		return true
	}
	return false
}

// toUTF8 takes the charset, in this order, from: a byte order mark, the header, the page's own meta element, valid UTF-8,
// windows-1252 (the order of the HTML standard). A declaration of UTF-8 that the bytes contradict is ignored.
func toUTF8(body []byte, label string, most int64) ([]byte, error) {
	hint := "text/html"
	if label != "" {
		hint = mime.FormatMediaType("text/html", map[string]string{"charset": label})
	}
	enc, name, certain := charset.DetermineEncoding(body, hint)
	if name == "utf-8" && label != "" && !utf8.Valid(body) {
		enc, name, certain = charset.DetermineEncoding(body, "text/html")
	}
	if !certain && utf8.Valid(body) {
		name = "utf-8"
	}
	if name != "utf-8" && name != "replacement" {
		// Some charsets take three times as much in UTF-8.
		decoded, err := io.ReadAll(io.LimitReader(enc.NewDecoder().Reader(bytes.NewReader(body)), most+1))
		if int64(len(decoded)) > most {
			return nil, tooLong(most)
		}
		if err == nil {
			body = decoded
		}
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if utf8.Valid(body) {
		return body, nil
	}
	if bad := int64(invalid(body)); int64(len(body))+bad*int64(len(replacement)) > most {
		return nil, tooLong(most)
	}
	return bytes.ToValidUTF8(body, []byte(replacement)), nil
}

const replacement = "\uFFFD"

// invalid counts the stretches of invalid UTF-8 in body.
func invalid(body []byte) (stretches int) {
	inside := false
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		bad := r == utf8.RuneError && size == 1
		if bad && !inside {
			stretches++
		}
		inside, body = bad, body[size:]
	}
	return stretches
}

func tooLong(most int64) error { return fmt.Errorf("body is longer than %d bytes in UTF-8", most) }

// sniffBytes is how many bytes http.DetectContentType reads.
const sniffBytes = 512

// checkHasText returns an error for a body whose header and first bytes both say that it has no text, so that videos and
// pictures are not downloaded.
func checkHasText(contentType string, beginning []byte) error {
	declared, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	declared = strings.TrimSpace(declared)
	sniffed := http.DetectContentType(beginning)
	for _, family := range []string{"image/", "audio/", "video/", "font/"} {
		if strings.HasPrefix(declared, family) && declared != "image/svg+xml" && !strings.HasPrefix(sniffed, "text/") {
			return fmt.Errorf("unsupported content type %s", clip(declared, 100))
		}
	}
	return nil
}
