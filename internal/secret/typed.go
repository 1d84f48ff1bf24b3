package secret

import (
	"regexp"
	"slices"
	"strings"
)

var (
	// ats match an @, however a person or a program wrote it.
	ats = regexp.MustCompile(`(?i)@|＠|%(?:25)*40`)
	// paths match text up to an @ that belongs to a path: nothing before it can be a user with a password.
	paths  = regexp.MustCompile(`^(?:([A-Za-z][A-Za-z0-9+.-]*)://)?[^/\\\s:@%]*(?::[0-9]+)?/[^\\\s:@]*$`)
	scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	// ports match what a parser takes for a port that it cannot read: the password of a URL that goes on with its path.
	ports = regexp.MustCompile(`^((?:[A-Za-z][A-Za-z0-9+.-]*:)?[/\\]*[^/\\\s:@?#\[\]]+:)([^/\\?#]*[^/\\?#0-9][^/\\?#]*)`)
)

// Typed is a person's input in the place of a URL, at most so many bytes of it. It need not be a URL, and its meaning is
// unknown: the part before the last @ is masked, and so are a query and a fragment.
func Typed(raw string, most int) string {
	text, cut := begin(raw, most+beyond)
	if cut {
		text += "@" // it may be after the cut
	}
	if found := ats.FindAllStringIndex(text, -1); len(found) > 0 {
		last := found[len(found)-1]
		at := paths.FindStringSubmatch(text[:last[0]])
		if at == nil || slices.Contains(servers, strings.ToLower(at[1])) {
			text = scheme.FindString(text) + Mask + "@" + text[last[1]:]
		}
	} else if at := ports.FindStringSubmatchIndex(text); at != nil && strings.Contains(text[:at[3]], "/") {
		text = text[:at[4]] + Mask + text[at[5]:]
	}
	if at := strings.IndexAny(text, "?#"); at >= 0 {
		text = text[:at] + "?" + Mask
	}
	if cut {
		text = strings.TrimSuffix(text, "@")
	}
	shown := Short(text, most)
	if cut && !strings.HasSuffix(shown, more) {
		shown += more
	}
	return shown
}
