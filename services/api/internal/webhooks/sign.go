package webhooks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/internal/secret"
)

// The headers of Standard Webhooks.
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

const (
	// secretBytes is how long a key is that signs: Standard Webhooks wants 24 to 64.
	secretBytes  = 32
	secretPrefix = "whsec_"
	// sealedField is what envelopes of secrets are bound to, beside the webhook's number. No configuration of a connector has a field of this name.
	sealedField = "webhook.secret"
)

// NewSecret makes the secret of a webhook, as its owner is shown it once.
func NewSecret() string {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// NewMessageID makes the id of a delivery, which is the same for each of its tries.
func NewMessageID() string { return "msg_" + rand.Text() }

// Seal encrypts the secret of a webhook.
func Seal(ring *secret.Ring, webhook int32, text string) (string, error) {
	return ring.Seal(webhook, sealedField, text)
}

// keyOf opens a sealed secret into the key that signs.
func keyOf(ring *secret.Ring, webhook int32, envelope string) ([]byte, error) {
	text, err := ring.Open(webhook, sealedField, envelope)
	if err != nil {
		return nil, err
	}
	encoded, is := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !is || err != nil {
		return nil, errors.New("the secret of the webhook is none") // what it is instead is not told
	}
	return key, nil
}

// signatures are what a message is signed with by each key, as the header has them.
func signatures(keys [][]byte, id string, at time.Time, body string) string {
	signed := id + "." + strconv.FormatInt(at.Unix(), 10) + "." + body
	all := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(signed)) // a hash takes everything
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " ")
}
