package crawl

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/echomind/sync/internal/line"
)

// maxSourceIDBytes bounds a canonical URL, which is its document's source id.
const maxSourceIDBytes = 2048

var errNotWeb = errors.New("not an http or https URL")

// canonical resolves ref against base (nil: ref is absolute) and returns the one spelling of the page's URL: scheme and host in
// lower case, host names in ASCII, no default port, no fragment, dot segments removed, percent-encoding normalised (RFC 3986,
// 6.2.2).
//
// The query keeps its order, because the order may mean something to the server; only parameters that track the visitor and
// select no content are dropped. Variants that a site considers equal are joined by its rel=canonical. URLs with user info are
// refused: they would send a password.
func canonical(base *url.URL, ref string, ignoreQuery bool) (*url.URL, error) {
	ref = strings.Trim(ref, " \t\n\r\f")
	ref = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(ref)
	u, err := url.Parse(ref)
	if err != nil {
		// The parser's error may quote a password that it takes for a port.
		why, _, _ := strings.Cut(unwrapURLError(err).Error(), `"`)
		return nil, fmt.Errorf("%w (%s)", errNotWeb, strings.TrimSpace(why))
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	scheme := strings.ToLower(u.Scheme)
	switch {
	case scheme != "http" && scheme != "https", u.Opaque != "":
		return nil, errNotWeb
	case u.User != nil:
		return nil, errors.New("has a user name or password in it; remove them")
	}
	host, err := canonicalHost(u, scheme)
	if err != nil {
		return nil, err
	}
	spelled := scheme + "://" + host + canonicalPath(u.EscapedPath())
	if query := canonicalQuery(u.RawQuery); query != "" && !ignoreQuery {
		spelled += "?" + query
	}
	return url.Parse(spelled)
}

func canonicalHost(u *url.URL, scheme string) (string, error) {
	name, port := u.Hostname(), u.Port()
	if strings.Contains(name, ":") {
		addr, err := netip.ParseAddr(name)
		if err != nil || addr.Zone() != "" {
			return "", errors.New("has an invalid IPv6 address or one with a zone")
		}
		name = addr.String()
	} else {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil && !isASCII(name) {
			return "", fmt.Errorf("has an invalid host name (%w)", err)
		}
		if err != nil {
			ascii = strings.ToLower(name)
		}
		name = strings.TrimRight(ascii, ".")
	}
	if name == "" {
		return "", errors.New("has no host")
	}
	if port == "" || (scheme == "http" && port == "80") || (scheme == "https" && port == "443") {
		if strings.Contains(name, ":") {
			return "[" + name + "]", nil
		}
		return name, nil
	}
	return net.JoinHostPort(name, port), nil
}

// canonicalPath normalises an escaped path. It keeps empty segments and a slash at the end: a server may have different pages
// for them.
func canonicalPath(escaped string) string {
	p := normalizeEscapes(escaped, "/:@!$&'()*+,;=")
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	if !strings.Contains(p, "/.") {
		return p
	}
	return removeDotSegments(p)
}

// removeDotSegments is RFC 3986, 5.2.4, for a path that starts with a slash.
func removeDotSegments(p string) string {
	segments := strings.Split(p[1:], "/")
	kept := make([]string, 0, len(segments))
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".", "..":
			if s == ".." && len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// tracking names query parameters that say where a visitor came from.
var tracking = map[string]bool{
	"gclid": true, "dclid": true, "gbraid": true, "wbraid": true, "fbclid": true, "msclkid": true, "yclid": true,
	"igshid": true, "mc_cid": true, "mc_eid": true, "phpsessid": true, "jsessionid": true,
}

func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	var kept []string
	for param := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(strings.ToLower(param), "=")
		if param != "" && !tracking[name] && !strings.HasPrefix(name, "utm_") {
			kept = append(kept, normalizeEscapes(param, "/?:@!$'()*+,;="))
		}
	}
	return strings.Join(kept, "&")
}

// normalizeEscapes writes each byte in its one form: letters, digits and -._~ plain, allowed bytes unchanged, all others
// percent-encoded with upper-case digits.
func normalizeEscapes(s, allowed string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		escaped := false
		if c == '%' && i+2 < len(s) {
			if coded, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c, escaped = byte(coded), true
				i += 2
			}
		}
		if unreserved(c) || (!escaped && strings.IndexByte(allowed, c) >= 0) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// below tells whether an escaped path is prefix or under it, by whole segments.
func below(escaped, prefix string) bool {
	prefix = strings.TrimRight(prefix, "/")
	rest, ok := strings.CutPrefix(escaped, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

func unwrapURLError(err error) error {
	if u, is := errors.AsType[*url.Error](err); is {
		return u.Err
	}
	return err
}

// clip cuts s to at most n bytes of valid UTF-8 on one line.
func clip(s string, n int) string { return line.Cut(line.One(s), n) }
