package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// NATSAccess is how this program authenticates to NATS, and how it checks NATS's certificate. At most one of user, creds file
// and NKey file is set; a user and password may also stand in NATS_URL.
type NATSAccess struct {
	// NATSUser is the user; NATS_URL may name it instead.
	NATSUser string `env:"NATS_USER"`
	// NATSPassword is that user's password.
	NATSPassword string `env:"NATS_PASSWORD"`
	// NATSCredsFile is a file with a JWT and its seed, as nsc writes it; instead of a user.
	NATSCredsFile string `env:"NATS_CREDS_FILE"`
	// NATSNKeyFile is a file with the seed of an NKey; instead of a user.
	NATSNKeyFile string `env:"NATS_NKEY_FILE"`
	// NATSCAFile is a file with the certificates, in PEM, of the authorities that sign NATS's certificate; the system's if
	// empty. Setting it demands TLS.
	NATSCAFile string `env:"NATS_CA_FILE"`
	// NATSCertFile is this program's own certificate, in PEM, where NATS asks for one.
	NATSCertFile string `env:"NATS_CERT_FILE"`
	// NATSKeyFile is a file with the key of that certificate, in PEM.
	NATSKeyFile string `env:"NATS_KEY_FILE"`
	// NATSInboxPrefix begins the subjects on which replies arrive; a user may be restricted to a prefix of its own, so that
	// nobody reads another's replies. If empty: _INBOX_ and the user's name, or _INBOX where no user is named.
	NATSInboxPrefix string `env:"NATS_INBOX_PREFIX"`
}

// plain matches users' names that may stand in a subject.
var plain = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Inbox is the prefix of the subjects on which replies arrive for a connection to url.
func (a NATSAccess) Inbox(natsURL string) string {
	if a.NATSInboxPrefix != "" {
		return a.NATSInboxPrefix
	}
	user := a.NATSUser
	first, _, _ := strings.Cut(natsURL, ",")
	if u, err := url.Parse(strings.TrimSpace(first)); err == nil && u.User.Username() != "" {
		user = u.User.Username()
	}
	if !plain.MatchString(user) {
		return "_INBOX"
	}
	return "_INBOX_" + user
}

// Validate returns every problem at once. It reads no file, but checks that each exists.
func (a NATSAccess) Validate() error {
	var problems []error
	var ways []string
	for _, f := range []struct {
		name, value string
		credential  bool
	}{
		{"NATS_CREDS_FILE", a.NATSCredsFile, true}, {"NATS_NKEY_FILE", a.NATSNKeyFile, true},
		{"NATS_CA_FILE", a.NATSCAFile, false}, {"NATS_CERT_FILE", a.NATSCertFile, false}, {"NATS_KEY_FILE", a.NATSKeyFile, false},
	} {
		if f.value == "" {
			continue
		}
		if f.credential {
			ways = append(ways, f.name)
		}
		if _, err := os.Stat(f.value); err != nil {
			problems = append(problems, fmt.Errorf("%s=%q: %w; name a file that this program may read", f.name, f.value, errors.Unwrap(err)))
		}
	}
	if a.NATSUser != "" {
		ways = append(ways, "NATS_USER")
	}
	if len(ways) > 1 {
		problems = append(problems, fmt.Errorf("%s: they exclude each other; keep one", strings.Join(ways, ", ")))
	}
	if a.NATSPassword != "" && a.NATSUser == "" {
		problems = append(problems, errors.New("NATS_PASSWORD is set without NATS_USER: set both"))
	}
	if (a.NATSCertFile == "") != (a.NATSKeyFile == "") {
		problems = append(problems, fmt.Errorf("NATS_CERT_FILE=%q, NATS_KEY_FILE=%q: a certificate needs its key; set both or none",
			a.NATSCertFile, a.NATSKeyFile))
	}
	if p := a.NATSInboxPrefix; strings.ContainsAny(p, "*> \t") || strings.HasPrefix(p, ".") || strings.HasSuffix(p, ".") {
		problems = append(problems, fmt.Errorf("NATS_INBOX_PREFIX=%q: must be a subject without wildcards and without a dot at its ends, such as _INBOX_chunker", p))
	}
	return errors.Join(problems...)
}

// Streams is the configuration of `echomind streams apply`.
type Streams struct {
	// Replicas is the number of servers of a cluster that keep each stream: 1, 3 or 5; 0 = unchanged, and 1 for a new stream.
	Replicas int `env:"NATS_REPLICAS" envDefault:"0"`
}
