package extract

import (
	"bytes"
	"mime"
	"path"
	"strings"
)

const (
	mediaHTML      = "text/html"
	mediaMarkdown  = "text/markdown"
	mediaText      = "text/plain"
	mediaCSV       = "text/csv"
	mediaJSON      = "application/json"
	mediaJSONLines = "application/jsonl"
	mediaXML       = "text/xml"
	mediaSVG       = "image/svg+xml"
)

// mediaTypes are those of texts.
var mediaTypes = map[string]bool{mediaHTML: true, mediaMarkdown: true, mediaText: true, mediaCSV: true, mediaJSON: true, mediaJSONLines: true}

// typeOf tells what text is, by its content. The hint decides only between kinds that content leaves open.
func typeOf(text []byte, hint Hint) string {
	if len(text) == 0 {
		return mediaText
	}
	expected := hint.kind()
	if kind := markupOf(text, expected); kind != "" {
		return kind
	}
	if kind := jsonOf(text); kind != "" {
		return kind
	}
	if score := markdownScore(text); score >= markdownNeeded(expected) {
		return mediaMarkdown
	}
	if _, ok := sniffCSV(text, expected == mediaCSV); ok {
		return mediaCSV
	}
	return mediaText
}

// kind is what the hint makes one expect: a media type of this package, "other" for a name that says it is
// something else (source code, say), or nothing.
func (h Hint) kind() string {
	switch bare(h.MediaType) {
	case "text/html", "application/xhtml+xml":
		return mediaHTML
	case "text/markdown", "text/x-markdown":
		return mediaMarkdown
	case "text/csv", "text/tab-separated-values":
		return mediaCSV
	}
	switch strings.ToLower(path.Ext(h.Name)) {
	case ".html", ".htm", ".xhtml":
		return mediaHTML
	case ".md", ".markdown", ".mdown", ".mkd", ".mdx":
		return mediaMarkdown
	case ".csv", ".tsv", ".tab":
		return mediaCSV
	case "", ".txt", ".text", ".log":
		return ""
	}
	return "other"
}

func bare(mediaType string) string {
	parsed, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		before, _, _ := strings.Cut(mediaType, ";")
		return strings.ToLower(strings.TrimSpace(before))
	}
	return parsed
}

var (
	// strongTags begin an HTML document and nothing else.
	strongTags = []string{"!doctype html", "html", "head", "body"}
	// weakTags are the rest of what the WHATWG MIME Sniffing Standard (7.1) takes for HTML. Markdown
	// may begin with them too.
	weakTags = []string{"script", "iframe", "h1", "div", "font", "table", "a", "style", "title", "b", "br", "p",
		"h2", "h3", "ul", "ol", "span", "section", "article", "main", "nav", "header", "meta", "link", "form", "pre"}
)

// markupOf tells whether text begins as HTML or XML does.
func markupOf(text []byte, expected string) string {
	rest := skipComments(text)
	if len(rest) < 3 || rest[0] != '<' {
		return ""
	}
	switch {
	case beginsWithTag(rest, strongTags):
		return mediaHTML
	case hasPrefixFold(rest, "<?xml"), hasPrefixFold(rest, "<!doctype"):
		head := bytes.ToLower(rest[:min(len(rest), 1024)])
		switch {
		case bytes.Contains(head, []byte("<html")):
			return mediaHTML
		case bytes.Contains(head, []byte("<svg")):
			return mediaSVG
		}
		return mediaXML
	case beginsWithTag(rest, []string{"svg"}):
		return mediaSVG
	case !beginsWithTag(rest, weakTags):
		return ""
	case expected == mediaHTML:
		return mediaHTML
	case expected == mediaMarkdown, expected == "other", markdownScore(text) >= markdownNeeded(expected):
		return ""
	}
	return mediaHTML
}

func skipComments(text []byte) []byte {
	for bytes.HasPrefix(text, []byte("<!--")) {
		end := bytes.Index(text, []byte("-->"))
		if end < 0 {
			return nil
		}
		text = bytes.TrimSpace(text[end+3:])
	}
	return text
}

func beginsWithTag(text []byte, tags []string) bool {
	for _, tag := range tags {
		if !hasPrefixFold(text[1:], tag) {
			continue
		}
		if end := 1 + len(tag); end == len(text) || bytes.IndexByte([]byte(" \t\r\n\f>/"), text[end]) >= 0 {
			return true
		}
	}
	return false
}

func hasPrefixFold(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(string(text[:len(prefix)]), prefix)
}

// describe names a media type in words that people know.
func describe(mediaType string) string {
	switch mediaType {
	case "application/pdf":
		return "PDF"
	case "application/zip", "application/gzip", "application/x-tar", "application/x-7z-compressed", "application/x-rar-compressed",
		"application/x-bzip2", "application/x-xz", "application/zstd":
		return "Archive"
	case "application/x-ole-storage", "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint":
		return "Office document"
	case "text/rtf":
		return "Rich text"
	case mediaXML:
		return "XML"
	case "application/vnd.microsoft.portable-executable", "application/x-elf", "application/x-executable",
		"application/x-sharedlib", "application/x-object", "application/x-mach-binary", "application/x-coredump":
		return "Executable"
	case "application/octet-stream":
		return "Binary data"
	}
	kind, name, _ := strings.Cut(mediaType, "/")
	switch {
	case strings.HasPrefix(name, "vnd.openxmlformats"), strings.HasPrefix(name, "vnd.oasis"):
		return "Office document"
	case kind == "image":
		return strings.ToUpper(strings.TrimSuffix(name, "+xml")) + " image"
	case kind == "audio", kind == "video":
		return strings.ToUpper(kind[:1]) + kind[1:]
	case kind == "font":
		return "Font"
	}
	return "Content"
}
