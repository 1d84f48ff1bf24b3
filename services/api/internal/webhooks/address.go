package webhooks

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

const mostURL = 2000

// Address reads a URL that is to be told, and says what is wrong with it. A name is looked up when something is sent, each time.
func (s *Service) Address(text string) (string, error) {
	if len(text) > mostURL || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return "", fmt.Errorf("must be a URL of at most %d characters, without blanks", mostURL)
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", errors.New("must be a URL such as https://example.org/hooks")
	}
	switch {
	case u.User != nil:
		return "", errors.New("must have no user and no password: the signature says who sends")
	case u.Fragment != "":
		return "", errors.New("must have no fragment (#…): it is never sent")
	case u.Scheme == "http" && len(s.config.Allow) == 0:
		return "", fmt.Errorf("must begin with https://; http:// is for addresses that the operator lists in %s", Setting)
	}
	if literal, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := s.guard.Check(literal); err != nil {
			return "", err
		}
	}
	if text = u.String(); len(text) > mostURL {
		return "", fmt.Errorf("has %d characters as it is sent, and may have %d", len(text), mostURL)
	}
	return text, nil
}
