// Package signin finds out whom somebody else has signed in: an OpenID Connect issuer by its tokens, or a proxy by its headers.
package signin

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/identity"
)

const (
	maxSubject = 255
	// maxGroups is of how many groups somebody is at most, as of those that are written down.
	maxGroups = 1000
)

// Refused says why nobody is signed in. It repeats nothing of what was sent.
type Refused string

func (r Refused) Error() string { return string(r) }

// Said is who somebody is, as somebody else has said.
type Said struct {
	Issuer, Subject string
	// Named is the user whom the issuer names by our number.
	Named *int32
	// Role is what the issuer has said of it; nil: nothing.
	Role *string
	// Groups are those that the issuer has the person in; Leads those of them that the person leads.
	Groups, Leads []string
	Scopes        []identity.Scope
}

// Ways are the ways to sign in.
type Ways struct {
	config        Config
	networks      []netip.Prefix
	groups, leads map[string][]string
	scopes        []identity.Scope
	keys          *keys
}

// New makes the ways of a configuration that is valid. It asks nobody.
func New(cfg Config, log *slog.Logger) (*Ways, error) {
	w := &Ways{config: cfg}
	var err error
	if err = cfg.Validate(); err != nil {
		return nil, err
	}
	w.networks, _ = guard.Prefixes("", cfg.Networks)
	w.groups, _ = pairs("", cfg.Groups)
	w.leads, _ = pairs("", cfg.Leads)
	if cfg.used() {
		w.scopes, err = identity.ParseScopes(cfg.Scopes)
	}
	if cfg.Issuer != "" {
		w.keys = newKeys(cfg.Issuer, log)
	}
	return w, err
}

// NewUsers is how many users may be made in a day.
func (w *Ways) NewUsers() int32 { return int32(w.config.NewUsers) }

// role is the greatest that a value means.
func (w *Ways) role(values []string) *string {
	role := identity.User
	for _, value := range values {
		switch {
		case slices.Contains(w.config.Superadmins, value):
			role = identity.Superadmin
		case role == identity.User && slices.Contains(w.config.Admins, value):
			role = identity.Admin
		}
	}
	text := string(role)
	return &text
}

// ours are our groups of the issuer's, and those that are led.
func (w *Ways) ours(values []string) (groups, leads []string) {
	for _, value := range values {
		led, in := w.leads[value], w.groups[value]
		if len(led)+len(in) == 0 && slices.Contains(w.config.Groups, everyGroup) && groupForm.MatchString(value) {
			in = []string{value}
		}
		groups, leads = append(append(groups, in...), led...), append(leads, led...)
	}
	slices.Sort(groups)
	slices.Sort(leads)
	groups, leads = slices.Compact(groups), slices.Compact(leads)
	return groups[:min(len(groups), maxGroups)], leads[:min(len(leads), maxGroups)]
}

func named(text string) (*int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return nil, Refused("The user's number is none.")
	}
	number := int32(n)
	return &number, nil
}

func isSubject(text string) bool {
	return text != "" && len(text) <= maxSubject && strings.ToValidUTF8(text, "") == text && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// claim finds what a path of dots leads to. A name may have dots itself.
func claim(of map[string]any, path string) (any, bool) {
	if value, found := of[path]; found {
		return value, true
	}
	for at, r := range path {
		if r != '.' {
			continue
		}
		if below, is := of[path[:at]].(map[string]any); is {
			if value, found := claim(below, path[at+1:]); found {
				return value, true
			}
		}
	}
	return nil, false
}

// text is a claim that is one text or number.
func text(of map[string]any, path string) string {
	value, _ := claim(of, path)
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// texts are those of a claim that is one text or several.
func texts(of map[string]any, path string) (all []string) {
	value, _ := claim(of, path)
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if t, is := one.(string); is {
				all = append(all, t)
			}
		}
	}
	return all
}
