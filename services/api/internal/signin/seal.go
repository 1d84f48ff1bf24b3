package signin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/secret"
)

// maxKept is the longest that a browser is given to keep: it takes 4 KiB with a cookie's name and attributes (RFC 6265, 6.1).
const maxKept = 3800

// seal closes what a browser keeps with two keys: that of the page's secret at the issuer, and those of SECRETS_KEY, which connectors have as well. Who has
// one of the two makes no session.
type seal struct {
	ring  *secret.Ring
	inner cipher.AEAD
}

func newSeal(ring *secret.Ring, clientSecret string) seal {
	key, err := hkdf.Key(sha256.New, []byte(clientSecret), nil, "echomind page", 32)
	if err != nil {
		panic(err) // of a length that is right
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // of a length that is right
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the block size of GCM
	}
	return seal{ring, aead}
}

func (s seal) close(purpose string, what any) (string, error) {
	text, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("seal what a browser keeps: %w", err)
	}
	return s.ring.Seal(0, "page."+purpose, string(s.inner.Seal(nil, nil, text, []byte(purpose))))
}

func (s seal) open(purpose, kept string, into any) error {
	if len(kept) > maxKept {
		return Refused("It is too long.")
	}
	sealed, err := s.ring.Open(0, "page."+purpose, kept)
	if err != nil {
		return err
	}
	text, err := s.inner.Open(nil, nil, []byte(sealed), []byte(purpose))
	if err != nil {
		return fmt.Errorf("open what a browser kept: %w", err)
	}
	return json.Unmarshal(text, into)
}

// session is somebody whom the issuer has signed in at the page.
type session struct {
	Said  Said
	Until time.Time
}

// Session is what a browser is given to keep of somebody whom the issuer has signed in. Its error is a Refused where that is too much.
func (p *Page) Session(said Said) (string, error) {
	said.Scopes = nil // are those of the settings, when they are asked for
	kept, err := p.seal.close("session", session{said, time.Now().Add(PageTime)})
	if err == nil && len(kept) > maxKept {
		err = Refused(fmt.Sprintf("You are in too many groups for a session of the page, %d: an operator must leave some out of SIGN_IN_GROUPS.", len(said.Groups)))
	}
	return kept, err
}

// Resume finds out whose session a browser has kept. Its error is a Refused.
func (p *Page) Resume(kept string) (Said, error) {
	var s session
	if p == nil || p.seal.open("session", kept, &s) != nil || !time.Now().Before(s.Until) || s.Said.Issuer != p.ways.config.Issuer {
		return Said{}, Refused("The session has ended.")
	}
	s.Said.Scopes = p.ways.scopes
	return s.Said, nil
}
