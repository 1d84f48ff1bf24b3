package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// ErrToken says that a text is no token of ours: it was mistyped, cut, or is something else.
var ErrToken = errors.New("not a token of this system: it has the form ems_<id>_<secret>, as it was printed once")

const (
	// TokenPrefix is how each token begins, so that scanners of secrets know it.
	TokenPrefix = "ems_"
	// secretLength gives a secret 190 bits.
	secretLength = 32
	crcLength    = 6
	digits       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Secret is the part of a token that is nobody's but its holder's.
type Secret string

// NewSecret makes one.
func NewSecret() Secret {
	var out strings.Builder
	bytes := make([]byte, 64)
	for {
		_, _ = rand.Read(bytes) // it never fails: crypto/rand ends the program
		for _, b := range bytes {
			if b >= 248 { // the largest multiple of 62 that a byte holds: each digit is as likely as any other
				continue
			}
			out.WriteByte(digits[b%62])
			if out.Len() == secretLength {
				return Secret(out.String())
			}
		}
	}
}

// Hash is what the database keeps of it.
func (s Secret) Hash() []byte {
	sum := sha256.Sum256([]byte(s))
	return sum[:]
}

// Token is what its holder is told once: ems_<id>_<secret><crc>.
func Token(id int32, secret Secret) string {
	body := TokenPrefix + strconv.Itoa(int(id)) + "_" + string(secret)
	return body + checksum(body)
}

// ParseToken takes a token apart. It finds a typing error without a query.
func ParseToken(text string) (id int32, secret Secret, err error) {
	rest, ours := strings.CutPrefix(text, TokenPrefix)
	number, tail, cut := strings.Cut(rest, "_")
	n, wrong := strconv.ParseInt(number, 10, 32)
	if !ours || !cut || wrong != nil || n < 1 || number != strconv.FormatInt(n, 10) || len(tail) != secretLength+crcLength {
		return 0, "", ErrToken
	}
	body := text[:len(text)-crcLength]
	if checksum(body) != text[len(body):] {
		return 0, "", ErrToken
	}
	return int32(n), Secret(tail[:secretLength]), nil
}

func checksum(body string) string {
	sum := crc32.ChecksumIEEE([]byte(body))
	var out [crcLength]byte
	for i := range out {
		out[crcLength-1-i] = digits[sum%62]
		sum /= 62
	}
	return string(out[:])
}

// String hides the secret, so that no log shows it.
func (s Secret) String() string { return fmt.Sprintf("%d characters", len(s)) }
