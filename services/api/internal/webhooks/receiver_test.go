package webhooks_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/api/internal/webhooks"
)

// verify says whether a request to a webhook is ours: docs/webhooks.md shows it.
func verify(secret string, header http.Header, body []byte, now time.Time) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	id, sent := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return errors.New("it was not sent just now")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + sent + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, signature := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(signature), []byte(want)) {
			return nil
		}
	}
	return errors.New("no signature is by our secret")
}

func TestThePageShowsAReceiverThatWorks(t *testing.T) {
	source, err := os.ReadFile("receiver_test.go")
	require.NoError(t, err)
	_, function, found := strings.Cut(string(source), "func verify(")
	require.True(t, found)
	function, _, _ = strings.Cut("func verify("+function, "\n}\n")
	page, err := os.ReadFile("../../../../docs/webhooks.md")
	require.NoError(t, err)
	require.Contains(t, string(page), function+"\n}\n")
}

// The example of the specification, https://github.com/standard-webhooks/standard-webhooks.
func TestTheSpecificationsExampleIsSignedAsItSays(t *testing.T) {
	header := http.Header{}
	header.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("webhook-timestamp", "1614265330")
	header.Set("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	require.NoError(t, verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", header, []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0)))
	require.Error(t, verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", header, []byte(`{"test": 2432232315}`), time.Unix(1614265330, 0)))
	require.Error(t, verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", header, []byte(`{"test": 2432232314}`), time.Unix(1614269330, 0)))
}

func TestASecretHasTheFormOfTheSpecification(t *testing.T) {
	secret := webhooks.NewSecret()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	require.NoError(t, err)
	require.Len(t, key, 32)
	require.NotEqual(t, secret, webhooks.NewSecret())
}
