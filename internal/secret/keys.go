package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNoKey says that no key was given.
var ErrNoKey = errors.New("no key for secrets: set SECRETS_KEY_FILE, or SECRETS_KEY, to what `echomind secrets key` prints")

// ErrUnknownKey says that an envelope was sealed with a key that the Ring does not have.
var ErrUnknownKey = errors.New("sealed with a key that is not among SECRETS_KEY_FILE or SECRETS_KEY")

const keyBytes = 32

var keyID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// Ring is a set of keys. The first seals; each opens. A nil Ring has no key.
type Ring struct {
	current string
	keys    map[string]cipher.AEAD
}

// Current is the id of the key that seals, "" where there is no key.
func (r *Ring) Current() string {
	if r == nil {
		return ""
	}
	return r.current
}

// NewKey makes a key, in the form of a key file.
func NewKey() (string, error) {
	key := make([]byte, keyBytes)
	if _, err := rand.Read(key); err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return idOf(key) + ":" + base64.StdEncoding.EncodeToString(key), nil
}

// idOf computes an id for a key without one. It reveals nothing about a key of 32 random bytes.
func idOf(key []byte) string {
	sum := sha256.Sum256(append([]byte("echomind key id\x00"), key...))
	return hex.EncodeToString(sum[:4])
}

// Parse reads keys, separated by commas, spaces or lines: `id:base64`, or the base64 of 32 bytes alone. Lines that begin with #
// are comments. The first key is the current one. No error quotes its input.
func Parse(text string) (*Ring, error) {
	ring := &Ring{keys: map[string]cipher.AEAD{}}
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }) {
			n++
			if err := ring.add(word); err != nil {
				return nil, fmt.Errorf("key %d of SECRETS_KEY_FILE or SECRETS_KEY: %w", n, err)
			}
		}
	}
	if n == 0 {
		return nil, ErrNoKey
	}
	return ring, nil
}

func (r *Ring) add(word string) error {
	id, encoded, named := strings.Cut(word, ":")
	if !named {
		id, encoded = "", word
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) != keyBytes {
		return errors.New("it must be the base64 of 32 bytes, as `echomind secrets key` prints it")
	}
	if !named {
		id = idOf(key)
	}
	if !keyID.MatchString(id) {
		return errors.New("its id must be letters, digits, _ and -, at most 32 of them")
	}
	if _, double := r.keys[id]; double {
		return fmt.Errorf("the id %q is given twice", id)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	if r.keys[id] = aead; r.current == "" {
		r.current = id
	}
	return nil
}

// Load reads the keys from a file, or from text where no file is named. Without either, the Ring and the error are nil: a
// caller that needs a key gets ErrNoKey then.
func Load(file, text string) (*Ring, error) {
	if file == "" {
		if strings.TrimSpace(text) == "" {
			return nil, nil
		}
		return Parse(text)
	}
	if strings.TrimSpace(text) != "" {
		return nil, errors.New("SECRETS_KEY_FILE and SECRETS_KEY are both set: keep one")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read SECRETS_KEY_FILE: %w", err)
	}
	ring, err := Parse(string(content))
	if err != nil {
		return nil, fmt.Errorf("SECRETS_KEY_FILE %s: %w", file, err)
	}
	return ring, nil
}

// FileIn is the path of the key file in a data folder.
func FileIn(dataDir string) string { return filepath.Join(dataDir, "secrets.key") }

// MakeFile writes a new key into a file that only its owner may read, unless the file exists.
func MakeFile(file string) error {
	key, err := NewKey()
	if err != nil {
		return err
	}
	// The key is written to another file and linked, so that nobody reads half a key, and of two makers one wins.
	aside, err := os.CreateTemp(filepath.Dir(file), ".key-*")
	if err != nil {
		return fmt.Errorf("make the key file: %w", err)
	}
	defer func() { _ = os.Remove(aside.Name()) }()
	_, err = aside.WriteString(key + "\n")
	if err = errors.Join(err, aside.Sync(), aside.Close()); err != nil {
		return fmt.Errorf("make the key file: %w", err)
	}
	if err := os.Link(aside.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the key file: %w", err)
	}
	return nil
}
