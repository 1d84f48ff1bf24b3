package crawl

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/PuerkitoBio/goquery"
)

// Bounds on what is kept of one page.
const (
	maxLinks = 1000
	// maxLinkBytes counts linkOverhead for each link, which is what it takes in a message beside its text.
	maxLinkBytes  = 128 << 10
	linkOverhead  = 8
	maxTitleBytes = 1024
	maxErrBytes   = 1000
)

// outline is what a crawl needs of a page beside its content.
type outline struct {
	// links are canonical URLs within the scope, in document order, each once.
	links []string
	// canonical is the URL that the page names as its own, if that is another one within the scope.
	canonical string
	noindex   bool
	nofollow  bool
}

// readOutline reads an HTML page that was found at its canonical URL.
func readOutline(body []byte, at *url.URL, sc *scope, token string) (outline, error) {
	doc, err := goquery.NewDocumentFromReader(bytes.NewReader(body))
	if err != nil {
		return outline{}, fmt.Errorf("parse HTML: %w", err)
	}
	var out outline
	doc.Find("meta[name]").Each(func(_ int, s *goquery.Selection) {
		if name := strings.TrimSpace(s.AttrOr("name", "")); strings.EqualFold(name, "robots") || strings.EqualFold(name, token) {
			out.obey(s.AttrOr("content", ""))
		}
	})
	base := at
	if href, ok := doc.Find("base[href]").First().Attr("href"); ok {
		if ref, err := url.Parse(strings.TrimSpace(href)); err == nil {
			base = at.ResolveReference(ref)
		}
	}
	doc.Find("link[rel][href]").EachWithBreak(func(_ int, s *goquery.Selection) bool {
		if !hasToken(s.AttrOr("rel", ""), "canonical") {
			return true
		}
		if u, ok := sc.resolve(base, s.AttrOr("href", "")); ok && u.String() != at.String() {
			out.canonical = u.String()
		}
		return false
	})
	out.links = pageLinks(doc, base, at, sc)
	return out, nil
}

// pageLinks collects what a visitor could go on to, frames and refreshes included.
func pageLinks(doc *goquery.Document, base, at *url.URL, sc *scope) []string {
	var links []string
	seen := map[string]bool{at.String(): true}
	size := 0
	doc.Find("a[href], area[href], link[rel][href], iframe[src], frame[src], meta[http-equiv]").EachWithBreak(func(_ int, s *goquery.Selection) bool {
		ref := reference(s)
		if ref == "" {
			return true
		}
		u, ok := sc.resolve(base, ref)
		if !ok || seen[u.String()] {
			return true
		}
		link := u.String()
		if len(links) == maxLinks || size+len(link)+linkOverhead > maxLinkBytes {
			return false
		}
		seen[link] = true
		size += len(link) + linkOverhead
		links = append(links, link)
		return true
	})
	return links
}

// reference returns where an element leads, or "" if it should not be followed.
func reference(s *goquery.Selection) string {
	rel := s.AttrOr("rel", "")
	switch goquery.NodeName(s) {
	case "iframe", "frame":
		return s.AttrOr("src", "")
	case "meta":
		if strings.EqualFold(s.AttrOr("http-equiv", ""), "refresh") {
			return refreshTarget(s.AttrOr("content", ""))
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
	return s.AttrOr("href", "")
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

// obey adds the directives of one robots meta element or X-Robots-Tag.
func (o *outline) obey(directives string) {
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

// valued are directives with a colon of their own, which do not name a crawler.
var valued = map[string]bool{"unavailable_after": true, "max-snippet": true, "max-image-preview": true, "max-video-preview": true}

// obeyHeader adds the directives of X-Robots-Tag, which may be for one crawler only: "name: noindex".
func (o *outline) obeyHeader(h http.Header, token string) {
	for _, value := range h.Values("X-Robots-Tag") {
		name, rest, ok := strings.Cut(value, ":")
		name = strings.TrimSpace(name)
		switch {
		case !ok || strings.Contains(name, ",") || valued[strings.ToLower(name)]:
			o.obey(value)
		case strings.EqualFold(name, token):
			o.obey(rest)
		}
	}
}

func hasToken(list, token string) bool {
	for _, field := range strings.Fields(list) {
		if strings.EqualFold(field, token) {
			return true
		}
	}
	return false
}
