package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const prefix = "enc:v1:"

// form is the form that the database requires of an envelope, too.
var form = regexp.MustCompile(`^enc:v1:[A-Za-z0-9_-]{1,32}:[A-Za-z0-9_-]+$`)

// ErrForged says that an envelope does not open: it was sealed for another field or another connector, or was altered.
var ErrForged = errors.New("the envelope does not open: it is another field's or another connector's, or was altered")

// ErrPlain says that a secret is in plain text where an envelope belongs.
var ErrPlain = errors.New("is not sealed: write it with `echomind connectors update`, which seals it")

// MaxBytes is the longest secret. Key files of service accounts have 2.4 KB, and the longest tokens of known providers about as
// much; longer text is no secret, and would be searched for in every text.
const MaxBytes = 16 << 10

// ErrTooLong says that a secret is longer than MaxBytes.
var ErrTooLong = errors.New("the secret is too long")

func checkLength(field string, length int) error {
	if length <= MaxBytes {
		return nil
	}
	return fmt.Errorf("%s: %w: %d bytes, and at most %d are taken; give the token or the key file alone", field, ErrTooLong, length, MaxBytes)
}

// IsEnvelope says whether a text is an envelope, sealed with any key.
func IsEnvelope(text string) bool { return form.MatchString(text) }

// KeyOf returns the id of the key that an envelope was sealed with, "" for any other text.
func KeyOf(envelope string) string {
	if !IsEnvelope(envelope) {
		return ""
	}
	id, _, _ := strings.Cut(envelope[len(prefix):], ":")
	return id
}

// bound is the data that is authenticated with an envelope.
func bound(connector int32, field string) []byte {
	return []byte("echomind connector " + strconv.Itoa(int(connector)) + " " + field)
}

// Seal encrypts a text into an envelope for one field of one connector. Its errors name the field.
func (r *Ring) Seal(connector int32, field, text string) (string, error) {
	if r == nil {
		return "", fmt.Errorf("%s: %w", field, ErrNoKey)
	}
	if err := checkLength(field, len(text)); err != nil {
		return "", err
	}
	aead := r.keys[r.current]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(text)+aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("seal %s: %w", field, err)
	}
	sealed := aead.Seal(nonce, nonce, []byte(text), bound(connector, field))
	return prefix + r.current + ":" + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Open returns the content of an envelope. Its errors are ErrNoKey, ErrUnknownKey, ErrForged, ErrPlain and ErrTooLong; they
// name the field, never the content.
func (r *Ring) Open(connector int32, field, envelope string) (string, error) {
	if !IsEnvelope(envelope) {
		return "", fmt.Errorf("%s %w", field, ErrPlain)
	}
	if r == nil {
		return "", fmt.Errorf("%s: %w", field, ErrNoKey)
	}
	id, encoded, _ := strings.Cut(envelope[len(prefix):], ":")
	aead, known := r.keys[id]
	if !known {
		return "", fmt.Errorf("%s: %w (key id %s)", field, ErrUnknownKey, id)
	}
	sealed, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(sealed) < aead.NonceSize() {
		return "", fmt.Errorf("%s: %w", field, ErrForged)
	}
	if err := checkLength(field, len(sealed)-aead.NonceSize()-aead.Overhead()); err != nil {
		return "", err
	}
	nonce, ciphertext := sealed[:aead.NonceSize()], sealed[aead.NonceSize():]
	text, err := aead.Open(nil, nonce, ciphertext, bound(connector, field))
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, ErrForged)
	}
	return string(text), nil
}

// Reseal seals the content of an envelope with the current key. An envelope that is sealed with it already is returned
// unchanged.
func (r *Ring) Reseal(connector int32, field, envelope string) (string, error) {
	text, err := r.Open(connector, field, envelope)
	if err != nil || KeyOf(envelope) == r.current {
		return envelope, err
	}
	return r.Seal(connector, field, text)
}
