package connect

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/echomind/sync/internal/config"
)

// Access returns the options of a connection to NATS beside its URL: the program's identity, and the certificates that it
// trusts. Every file is read here, so that a wrong one is reported at the start, by its setting; no error quotes a file.
func Access(a config.NATSAccess) ([]nats.Option, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	var options []nats.Option
	if a.NATSUser != "" {
		options = append(options, nats.UserInfo(a.NATSUser, a.NATSPassword))
	}
	if a.NATSCredsFile != "" {
		creds := nats.UserCredentials(a.NATSCredsFile)
		// The driver reads the file at each connection, and so notices a new one; this only checks that it can be read.
		var o nats.Options
		if err := creds(&o); err != nil {
			return nil, fmt.Errorf("NATS_CREDS_FILE=%q: %w", a.NATSCredsFile, err)
		}
		token, err := o.UserJWT()
		if err == nil && strings.Count(token, ".") == 2 { // header, claims, signature: RFC 7519
			_, err = o.SignatureCB([]byte("nonce"))
		} else if err == nil {
			err = errors.New("no JWT")
		}
		if err != nil {
			return nil, fmt.Errorf("NATS_CREDS_FILE=%q: it does not hold a user's JWT and seed; make it with nsc: %w", a.NATSCredsFile, err)
		}
		options = append(options, creds)
	}
	if a.NATSNKeyFile != "" {
		seed, err := nats.NkeyOptionFromSeed(a.NATSNKeyFile)
		if err != nil {
			return nil, fmt.Errorf("NATS_NKEY_FILE=%q: it holds no seed of a user's NKey: %w", a.NATSNKeyFile, err)
		}
		options = append(options, seed)
	}
	if a.NATSCAFile != "" {
		if err := nats.RootCAs(a.NATSCAFile)(&nats.Options{}); err != nil {
			return nil, fmt.Errorf("NATS_CA_FILE=%q: it holds no certificate in PEM: %w", a.NATSCAFile, err)
		}
		options = append(options, nats.RootCAs(a.NATSCAFile))
	}
	if a.NATSCertFile != "" {
		if _, err := tls.LoadX509KeyPair(a.NATSCertFile, a.NATSKeyFile); err != nil {
			return nil, errors.New("NATS_CERT_FILE, NATS_KEY_FILE: they are not a certificate and its key in PEM")
		}
		options = append(options, nats.ClientCert(a.NATSCertFile, a.NATSKeyFile))
	}
	return options, nil
}
