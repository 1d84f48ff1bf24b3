package crawl

import (
	"bytes"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// Bounds of one page's outline.
const (
	maxLinks = 1000
	// maxLinkBytes counts linkOverhead for each link: its bytes in a message beside its text.
	maxLinkBytes  = 128 << 10
	linkOverhead  = 8
	maxTitleBytes = 1024
	maxErrBytes   = 1000
)

// outline is what a crawl needs from a page beside its content.
type outline struct {
	// links are canonical URLs within the scope, in document order, each once.
	links []string
	// canonical is the URL that the page names as canonical, if it is another URL within the scope.
	canonical string
	noindex   bool
	nofollow  bool
}

// readOutline reads an HTML page that was found at its canonical URL. It reads tags as a stream: a tree takes tens of times the
// page's memory. The base is read first, because it applies to earlier links as well.
func readOutline(body []byte, at *url.URL, sc *scope, token string) outline {
	var out outline
	base := (*url.URL)(nil)
	canonical := ""
	for tag := range tags(body) {
		switch tag.name {
		case "meta":
			if name := strings.TrimSpace(tag.attr("name")); strings.EqualFold(name, "robots") || strings.EqualFold(name, token) {
				out.addDirectives(tag.attr("content"))
			}
		case "base":
			if ref, err := url.Parse(strings.TrimSpace(tag.attr("href"))); err == nil && base == nil && tag.has("href") {
				base = at.ResolveReference(ref)
			}
		case "link":
			if canonical == "" && tag.has("href") && hasToken(tag.attr("rel"), "canonical") {
				canonical = tag.attr("href")
			}
		}
	}
	if base == nil {
		base = at
	}
	if canonical != "" {
		if u, ok := sc.resolve(base, canonical); ok && u.String() != at.String() {
			out.canonical = u.String()
		}
	}
	out.links = pageLinks(body, base, at, sc)
	return out
}

// pageLinks collects the links that a visitor could follow, frames and refreshes included.
func pageLinks(body []byte, base, at *url.URL, sc *scope) []string {
	var links []string
	seen := map[string]bool{at.String(): true}
	size := 0
	for tag := range tags(body) {
		ref := tag.reference()
		if ref == "" {
			continue
		}
		u, ok := sc.resolve(base, ref)
		if !ok || seen[u.String()] {
			continue
		}
		link := u.String()
		if len(links) == maxLinks || size+len(link)+linkOverhead > maxLinkBytes {
			break
		}
		seen[link] = true
		size += len(link) + linkOverhead
		links = append(links, link)
	}
	return links
}

// tag is a start tag that may contain a link or a directive.
type tag struct {
	name       string
	attributes map[string]string
}

// readAttributes are the attributes that are read, by element.
var readAttributes = map[string][]string{
	"a": {"href", "rel"}, "area": {"href", "rel"}, "link": {"href", "rel"}, "base": {"href"},
	"iframe": {"src"}, "frame": {"src"}, "meta": {"name", "content", "http-equiv"},
}

// tags returns the start tags of a page that may contain a link or a directive, in order.
func tags(body []byte) iter.Seq[tag] {
	return func(yield func(tag) bool) {
		z := html.NewTokenizer(bytes.NewReader(body))
		for {
			kind := z.Next()
			if kind == html.ErrorToken {
				return
			}
			if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
				continue
			}
			name, more := z.TagName()
			wanted := readAttributes[string(name)]
			if wanted == nil || !more {
				continue
			}
			t := tag{name: string(name), attributes: make(map[string]string, len(wanted))}
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				if _, again := t.attributes[string(key)]; !again && slices.Contains(wanted, string(key)) {
					t.attributes[string(key)] = string(value)
				}
			}
			if !yield(t) {
				return
			}
		}
	}
}

func (t tag) attr(key string) string { return t.attributes[key] }

func (t tag) has(key string) bool {
	_, ok := t.attributes[key]
	return ok
}

// reference returns the link of an element, or "" if it must not be followed.
func (t tag) reference() string {
	rel := t.attr("rel")
	switch t.name {
	case "base":
		return ""
	case "iframe", "frame":
		return t.attr("src")
	case "meta":
		if strings.EqualFold(t.attr("http-equiv"), "refresh") {
			return refreshTarget(t.attr("content"))
		}
		return ""
	case "link":
		if !hasToken(rel, "next") && !hasToken(rel, "prev") {
			return ""
		}
	}
	if hasToken(rel, "nofollow") {
		return ""
	}
	return t.attr("href")
}

// refreshTarget reads `5; url='next.html'`.
func refreshTarget(content string) string {
	_, target, ok := strings.Cut(content, ";")
	if !ok {
		return ""
	}
	target = strings.TrimSpace(target)
	if len(target) < 4 || !strings.EqualFold(target[:3], "url") {
		return ""
	}
	value, ok := strings.CutPrefix(strings.TrimSpace(target[3:]), "=")
	if !ok {
		return ""
	}
	return strings.Trim(strings.TrimSpace(value), `"'`)
}

// addDirectives adds the directives of one robots meta element or X-Robots-Tag.
func (o *outline) addDirectives(directives string) {
	for d := range strings.SplitSeq(strings.ToLower(directives), ",") {
		switch strings.TrimSpace(d) {
		case "noindex":
			o.noindex = true
		case "nofollow":
			o.nofollow = true
		case "none":
			o.noindex, o.nofollow = true, true
		}
	}
}

// valued are directives with a colon in them, which do not name a crawler.
var valued = map[string]bool{"unavailable_after": true, "max-snippet": true, "max-image-preview": true, "max-video-preview": true}

// addHeaderDirectives adds the directives of X-Robots-Tag, which may address one crawler only: "name: noindex".
func (o *outline) addHeaderDirectives(h http.Header, token string) {
	for _, value := range h.Values("X-Robots-Tag") {
		name, rest, ok := strings.Cut(value, ":")
		name = strings.TrimSpace(name)
		switch {
		case !ok || strings.Contains(name, ",") || valued[strings.ToLower(name)]:
			o.addDirectives(value)
		case strings.EqualFold(name, token):
			o.addDirectives(rest)
		}
	}
}

func hasToken(list, token string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(field string) bool { return strings.EqualFold(field, token) })
}
