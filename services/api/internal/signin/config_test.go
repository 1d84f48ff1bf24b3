package signin

import (
	"strings"
	"testing"
)

func valid() Config {
	return Config{
		Issuer: "https://id.example/realms/main", Audience: []string{"a"}, SubjectClaim: "sub", SkewSeconds: 30, Networks: []string{"10.0.0.0/8"}, UserHeader: "X-Uid",
		Separator: ",", Scopes: []string{"read"}, Groups: []string{"A = B=eng", "*"}, Leads: []string{"x=eng"},
	}
}

func TestASettingThatWouldBelieveTheWrongIsRefused(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	if err := (Config{SubjectClaim: "sub", UserHeader: "X", Separator: ","}).Validate(); err != nil {
		t.Errorf("nothing is believed: %v", err)
	}
	for want, change := range map[string]func(*Config){
		"OIDC_ISSUER":                func(c *Config) { c.Issuer = "http://id.example" },
		"OIDC_ISSUER: must":          func(c *Config) { c.Issuer = "https://id.example?x" },
		"OIDC_AUDIENCE":              func(c *Config) { c.Audience = nil },
		"OIDC_AUDIENCE: is required": func(c *Config) { c.Audience = []string{"a", ""} },
		"OIDC_SUBJECT_CLAIM":         func(c *Config) { c.SubjectClaim = "" },
		"OIDC_SKEW_SECONDS=301":      func(c *Config) { c.SkewSeconds = 301 },
		"OIDC_SKEW_SECONDS=-1":       func(c *Config) { c.SkewSeconds = -1 },
		"FORWARD_AUTH_NETWORKS":      func(c *Config) { c.Networks = []string{"10.0.0.1"} },
		"is everybody":               func(c *Config) { c.Networks = []string{"10.0.0.0/8", "0.0.0.0/0"} },
		"one of them is everybody":   func(c *Config) { c.Networks = []string{"::/0"} },
		"FORWARD_AUTH_USER_HEADER":   func(c *Config) { c.UserHeader = "Authorization" },
		"FORWARD_AUTH_ROLES_HEADER":  func(c *Config) { c.RolesHeader = "a b" },
		"FORWARD_AUTH_SEPARATOR":     func(c *Config) { c.Separator = "" },
		"SIGN_IN_SCOPES":             func(c *Config) { c.Scopes = []string{"all"} },
		"SIGN_IN_GROUPS":             func(c *Config) { c.Groups = []string{"eng"} },
		"SIGN_IN_LEADS":              func(c *Config) { c.Leads = []string{"*"} },
		"SIGN_IN_SUPERADMINS: one":   func(c *Config) { c.Superadmins = []string{"roots", ""} },
		"SIGN_IN_ADMINS, ":           func(c *Config) { c.Admins = []string{""} },
		"SIGN_IN_NEW_USERS=10001":    func(c *Config) { c.NewUsers = 10001 },
		"OIDC_CLIENT_ID":             func(c *Config) { c.PageURL = "https://sync.example" },
		"OIDC_CLIENT_SECRET":         func(c *Config) { c.ClientID, c.PageURL = "page", "https://sync.example" },
		"OIDC_CLIENT_SECRET: must": func(c *Config) {
			c.ClientID, c.ClientSecret, c.PageURL = "page", "a secret of sixteen", "https://sync.example"
		},
		"in 16 to 1000": func(c *Config) {
			c.ClientID, c.ClientSecret, c.PageURL = "page", "fifteen-letters", "https://sync.example"
		},
		"OIDC_PAGE_URL": func(c *Config) { c.ClientID, c.ClientSecret = "page", "a-secret-of-sixteen" },
		"OIDC_PAGE_URL: must": func(c *Config) {
			c.ClientID, c.ClientSecret, c.PageURL = "page", "a-secret-of-sixteen", "https://sync.example/page"
		},
		"OIDC_PAGE_URL: must be": func(c *Config) {
			c.ClientID, c.ClientSecret, c.PageURL = "page", "a-secret-of-sixteen", "http://sync.example"
		},
		"OIDC_PAGE_SCOPES": func(c *Config) {
			c.ClientID, c.ClientSecret, c.PageURL, c.PageScopes = "page", "a-secret-of-sixteen", "https://s.example", []string{"email"}
		},
		"OIDC_ISSUER: is required": func(c *Config) {
			c.Issuer, c.ClientID, c.ClientSecret, c.PageURL, c.PageScopes = "", "page", "a-secret-of-sixteen", "https://s.example", []string{"openid"}
		},
	} {
		c := valid()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// An address is that of the connection; IPv4 in IPv6 is the same one.
func TestAProxyIsBelievedByItsNetwork(t *testing.T) {
	c := valid()
	c.Networks = []string{"10.0.0.0/8", "2001:db8::/32", "::ffff:192.0.2.0/120"}
	w, err := New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for peer, want := range map[string]bool{
		"10.1.2.3:5": true, "[::ffff:10.1.2.3]:5": true, "[2001:db8::1%eth0]:5": true, "192.0.2.7:5": true, "192.0.3.7:5": false, "11.0.0.1:5": false, "[::1]:5": false,
		"10.1.2.3": false, "": false, "@": false,
	} {
		if got := w.believes(peer); got != want {
			t.Errorf("%q: %v", peer, got)
		}
	}
}

func TestAClaimIsFoundWhateverDotsItsNameHas(t *testing.T) {
	claims := map[string]any{"a": map[string]any{"b.c": map[string]any{"d": "1"}, "b": "2"}, "https://x.example/r": "3", "a.b": "4"}
	for path, want := range map[string]string{"a.b.c.d": "1", "a.b": "4", "https://x.example/r": "3", "a.b.d": "", "": "", "a.": "", ".a": ""} {
		if got := text(claims, path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
