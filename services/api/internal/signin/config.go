package signin

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/identity"
)

// Config says whom the API believes who somebody is, besides its own tokens.
type Config struct {
	// Issuer is an OpenID Connect issuer's URL, as its tokens have it in iss; empty = none. It is asked for its keys at /.well-known/openid-configuration below.
	Issuer string `env:"OIDC_ISSUER"`
	// Audience are names of this API. A token must have one of them in aud. It is required with an issuer.
	Audience []string `env:"OIDC_AUDIENCE"`
	// Clients are those to whom tokens may have been given (azp, client_id or appid); empty = all of the issuer's.
	Clients []string `env:"OIDC_CLIENTS"`
	// SkewSeconds is how far the issuer's clock and this one may be apart, in seconds.
	SkewSeconds int `env:"OIDC_SKEW_SECONDS" envDefault:"30"`
	// SubjectClaim is the claim that says which person it is, such as Entra's oid. With email the token must have email_verified as well. Of all names of claims: dots lead into objects.
	SubjectClaim string `env:"OIDC_SUBJECT_CLAIM" envDefault:"sub"`
	// UserIDClaim is a claim that has our user's number, where the issuer knows it.
	UserIDClaim string `env:"OIDC_USER_ID_CLAIM"`
	// GroupsClaim is the claim that has the person's groups.
	GroupsClaim string `env:"OIDC_GROUPS_CLAIM"`
	// RolesClaim is the claim that says who is an admin, such as realm_access.roles. Without it the role is what `echomind users set` says.
	RolesClaim string `env:"OIDC_ROLES_CLAIM"`
	// ScopesClaim is a claim that has scopes, such as scope or scp: those of SIGN_IN_SCOPES count that it has.
	ScopesClaim string `env:"OIDC_SCOPES_CLAIM"`
	// ScopesPrefix is what scopes begin with there, such as echomind:.
	ScopesPrefix string `env:"OIDC_SCOPES_PREFIX"`

	// ClientID is what the issuer calls the page, whose visitors it then signs in; empty = the page asks for a token of ours. It needs all four, and SECRETS_KEY.
	ClientID string `env:"OIDC_CLIENT_ID"`
	// ClientSecret is the page's secret at the issuer, of 16 characters and more. Sessions of the page are sealed with it, and with SECRETS_KEY.
	ClientSecret string `env:"OIDC_CLIENT_SECRET"`
	// PageURL is the page's address, such as https://sync.example, without a path. The issuer sends people back to /sign-in/back there, which it must know.
	PageURL string `env:"OIDC_PAGE_URL"`
	// PageScopes are what the page asks the issuer for; openid is one of them.
	PageScopes []string `env:"OIDC_PAGE_SCOPES" envDefault:"openid,profile,email"`

	// Networks are those (CIDR) of proxies whose headers say who somebody is; empty = none. With these headers a request from elsewhere is refused.
	Networks []string `env:"FORWARD_AUTH_NETWORKS"`
	// UserHeader is the header that says which person it is, such as X-Authentik-Uid.
	UserHeader string `env:"FORWARD_AUTH_USER_HEADER" envDefault:"X-Forwarded-User"`
	// UserIDHeader is a header that has our user's number.
	UserIDHeader string `env:"FORWARD_AUTH_USER_ID_HEADER"`
	// GroupsHeader is the header that has the person's groups.
	GroupsHeader string `env:"FORWARD_AUTH_GROUPS_HEADER"`
	// RolesHeader is the header that says who is an admin.
	RolesHeader string `env:"FORWARD_AUTH_ROLES_HEADER"`
	// Separator is what stands between two values in one header. Authentik's is a vertical bar.
	Separator string `env:"FORWARD_AUTH_SEPARATOR" envDefault:","`

	// Admins are the values of the claim, or the header, of roles that mean an admin.
	Admins []string `env:"SIGN_IN_ADMINS"`
	// Superadmins are those that mean a superadmin.
	Superadmins []string `env:"SIGN_IN_SUPERADMINS"`
	// Groups are pairs such as Engineering=eng: whom the issuer has in the one is in our group of the other name. With * each other group that has a name of ours is ours.
	Groups []string `env:"SIGN_IN_GROUPS"`
	// Leads are such pairs for those who lead the group.
	Leads []string `env:"SIGN_IN_LEADS"`
	// Scopes are what who is signed in so may use.
	Scopes []string `env:"SIGN_IN_SCOPES" envDefault:"read,operate,write"`
	// NewUsers is how many users may be made in a day of subjects that nobody has linked to one; 0 = none.
	NewUsers int `env:"SIGN_IN_NEW_USERS" envDefault:"0"`
}

const maxNewUsers = 10_000

func (c Config) skew() time.Duration { return time.Duration(c.SkewSeconds) * time.Second }

// Validate returns every problem at once.
func (c Config) Validate() error {
	_, networks := guard.Prefixes("FORWARD_AUTH_NETWORKS", c.Networks)
	_, groups := pairs("SIGN_IN_GROUPS", c.Groups)
	_, leads := pairs("SIGN_IN_LEADS", c.Leads)
	problems := []error{networks, groups, leads, config.AtLeast("SIGN_IN_NEW_USERS", c.NewUsers, 0), config.AtLeast("OIDC_SKEW_SECONDS", c.SkewSeconds, 0)}
	if c.SkewSeconds > 300 {
		problems = append(problems, fmt.Errorf("OIDC_SKEW_SECONDS=%d: must be at most 300; set the clocks right", c.SkewSeconds))
	}
	if c.NewUsers > maxNewUsers {
		problems = append(problems, fmt.Errorf("SIGN_IN_NEW_USERS=%d: must be at most %d", c.NewUsers, maxNewUsers))
	}
	if slices.Contains(c.Admins, "") || slices.Contains(c.Superadmins, "") {
		problems = append(problems, errors.New("SIGN_IN_ADMINS, SIGN_IN_SUPERADMINS: one of the values is empty; leave out the comma"))
	}
	if slices.Contains(c.Leads, everyGroup) {
		problems = append(problems, errors.New("SIGN_IN_LEADS: * is for SIGN_IN_GROUPS alone"))
	}
	if c.Issuer != "" {
		problems = append(problems, c.checkIssuer())
	}
	if c.ClientID != "" || c.ClientSecret != "" || c.PageURL != "" {
		problems = append(problems, c.checkPage())
	}
	if _, err := identity.ParseScopes(c.Scopes); c.used() && err != nil {
		problems = append(problems, fmt.Errorf("SIGN_IN_SCOPES: %w", err))
	}
	if len(c.Networks) > 0 {
		problems = append(problems, c.checkHeaders())
	}
	return errors.Join(problems...)
}

// LetsAdminister says whether a superadmin who is signed in so may write users.
func (c Config) LetsAdminister() bool {
	return c.used() && slices.Contains(c.Scopes, string(identity.Administer))
}

// SaysSuperadmins says whether issuer or proxy say of somebody that they are a superadmin, who may write users then.
func (c Config) SaysSuperadmins() bool {
	return c.LetsAdminister() && len(c.Superadmins) > 0 && (c.Issuer != "" && c.RolesClaim != "" || len(c.Networks) > 0 && c.RolesHeader != "")
}

func (c Config) used() bool { return c.Issuer != "" || len(c.Networks) > 0 }

func (c Config) checkIssuer() error {
	var problems []error
	if u, err := url.Parse(c.Issuer); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !safe(u) {
		problems = append(problems, errors.New("OIDC_ISSUER: must be the issuer's URL with https, as its tokens have it in iss; http only of this machine"))
	}
	if len(c.Audience) == 0 || slices.Contains(c.Audience, "") {
		problems = append(problems, errors.New("OIDC_AUDIENCE: is required with OIDC_ISSUER: what the issuer's tokens for this API have in aud"))
	}
	if c.SubjectClaim == "" {
		problems = append(problems, errors.New("OIDC_SUBJECT_CLAIM: must be a claim, such as sub"))
	}
	return errors.Join(problems...)
}

// checkPage looks at what the page needs to have its visitors signed in.
func (c Config) checkPage() error {
	var problems []error
	if c.Issuer == "" {
		problems = append(problems, errors.New("OIDC_ISSUER: is required with OIDC_CLIENT_ID: it signs the visitors of the page in"))
	}
	for _, s := range []struct {
		setting, value, what string
		least                int
	}{
		{"OIDC_CLIENT_ID", c.ClientID, "what the issuer calls the page", 1},
		{"OIDC_CLIENT_SECRET", c.ClientSecret, "the page's secret at the issuer, with which sessions are sealed", 16},
	} {
		if len(s.value) < s.least || len(s.value) > 1000 || strings.ContainsFunc(s.value, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			problems = append(problems, fmt.Errorf("%s: must be %s, in %d to 1000 ASCII characters without blanks", s.setting, s.what, s.least))
		}
	}
	if u, err := url.Parse(c.PageURL); err != nil || u.Host == "" || u.User != nil || strings.TrimSuffix(c.PageURL, "/") != u.Scheme+"://"+u.Host || !safe(u) {
		problems = append(problems, errors.New("OIDC_PAGE_URL: must be the page's address with https and without a path, such as https://sync.example; http only of this machine"))
	}
	if !slices.Contains(c.PageScopes, "openid") || slices.ContainsFunc(c.PageScopes, func(s string) bool { return !scopeForm.MatchString(s) }) {
		problems = append(problems, errors.New("OIDC_PAGE_SCOPES: must be scopes of the issuer's, separated by commas, and openid among them"))
	}
	return errors.Join(problems...)
}

// scopeForm is a scope-token of RFC 6749, 3.3.
var scopeForm = regexp.MustCompile(`^[!#-\[\]-~]{1,200}$`)

// safe says whether nobody in between can change what is fetched.
func safe(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	at, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && at.IsLoopback())
}

var headerForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,100}$`)

// taken are headers that mean something else to the API.
var taken = []string{"authorization", "host", "cookie", "content-type", "content-length", "if-match", "x-request-id", "audit-note", "idempotency-key", "x-forwarded-for"}

func (c Config) checkHeaders() error {
	var problems []error
	for _, h := range []struct{ setting, name string }{
		{"FORWARD_AUTH_USER_HEADER", c.UserHeader}, {"FORWARD_AUTH_USER_ID_HEADER", c.UserIDHeader},
		{"FORWARD_AUTH_GROUPS_HEADER", c.GroupsHeader}, {"FORWARD_AUTH_ROLES_HEADER", c.RolesHeader},
	} {
		if h.name == "" && h.setting != "FORWARD_AUTH_USER_HEADER" {
			continue
		}
		if !headerForm.MatchString(h.name) || slices.Contains(taken, strings.ToLower(h.name)) {
			problems = append(problems, fmt.Errorf("%s=%q: must be a header of letters, digits and -, and none that means something else", h.setting, h.name))
		}
	}
	if prefixes, _ := guard.Prefixes("", c.Networks); slices.ContainsFunc(prefixes, func(n netip.Prefix) bool { return n.Bits() == 0 || n.Addr().Is4In6() && n.Bits() <= 96 }) {
		problems = append(problems, errors.New("FORWARD_AUTH_NETWORKS: one of them is everybody, who could then call themselves as they like: name the proxies' networks"))
	}
	if c.Separator == "" {
		problems = append(problems, errors.New("FORWARD_AUTH_SEPARATOR: must be a character, such as a comma"))
	}
	return errors.Join(problems...)
}

const everyGroup = "*"

var groupForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// pairs reads theirs=ours, at the last =.
func pairs(setting string, texts []string) (map[string][]string, error) {
	all := map[string][]string{}
	var problems []error
	for _, text := range texts {
		if text == everyGroup {
			continue
		}
		at := strings.LastIndex(text, "=")
		if at < 1 || !groupForm.MatchString(text[at+1:]) {
			problems = append(problems, fmt.Errorf("%s: %q is not the issuer's group, = and ours of 1 to 128 letters, digits, _ or -", setting, text))
			continue
		}
		all[text[:at]] = append(all[text[:at]], text[at+1:])
	}
	return all, errors.Join(problems...)
}
