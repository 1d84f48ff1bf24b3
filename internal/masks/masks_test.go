package masks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsASecretByItsNameOrItsPlaceIsMasked(t *testing.T) {
	for shown, config := range map[string]string{
		`{"pwd":"REDACTED"}`:                                     `{"pwd":"x"}`,
		`{"pass":"REDACTED"}`:                                    `{"pass":"x"}`,
		`{"dbPass":"REDACTED"}`:                                  `{"dbPass":"x"}`,
		`{"passphrase":"REDACTED"}`:                              `{"passphrase":"x"}`,
		`{"Authorization":"REDACTED"}`:                           `{"Authorization":"Bearer x"}`,
		`{"cookie":"REDACTED"}`:                                  `{"cookie":"a=b"}`,
		`{"session_cookies":"REDACTED"}`:                         `{"session_cookies":["a"]}`,
		`{"auth":"REDACTED"}`:                                    `{"auth":{"user":"x"}}`,
		`{"basicAuth":"REDACTED"}`:                               `{"basicAuth":"x"}`,
		`{"dsn":"host=db user=bob password=REDACTED dbname=x"}`:  `{"dsn":"host=db user=bob password='p w' dbname=x"}`,
		`{"url":"https://REDACTED@host.example/x"}`:              `{"url":"https://ghp_token@host.example/x"}`,
		`{"a":"https://REDACTED@host.example/x"}`:                `{"a":"https://ghp_token:x-oauth-basic@host.example/x"}`,
		`{"b":"https://ann:REDACTED@host.example/x"}`:            `{"b":"https://ann:pw@host.example/x"}`,
		`{"c":"clone https://REDACTED@host.example/x"}`:          `{"c":"clone https://ann:pw@host.example/x"}`,
		`{"d":"ssh://git@host.example/x"}`:                       `{"d":"ssh://git@host.example/x"}`,
		`{"e":"https://host.example/x#REDACTED"}`:                `{"e":"https://host.example/x#access_token=y"}`,
		`{"f":"https://host.example/x?jwt=REDACTED&page=2"}`:     `{"f":"https://host.example/x?page=2&jwt=y"}`,
		`{"author":"ann","passage":"x","keyboard":"y","oath":1}`: `{"author":"ann","passage":"x","keyboard":"y","oath":1}`,
	} {
		require.JSONEq(t, shown, string(Object([]byte(config))), config)
	}
}

// What was copied from our own output is known by each mask in it, wherever a mask may stand.
func TestWhatWasMaskedIsKnownAsMasked(t *testing.T) {
	for _, config := range []string{
		`{"password":"x"}`, `{"a":"password: x"}`, `{"a":"password=x"}`, `{"headers":["X-Api-Key: x"]}`, `{"a":"https://x.example/#/docs"}`,
		`{"a":"https://x.example/?token=x&page=2"}`, `{"a":"https://me:x@x.example/"}`, `{"a":"https://x@x.example/"}`, `{"a":"clone https://ann:pw@host.example/x"}`,
		`{"a":"{\"password\": \"x\"}"}`, `{"deep":[{"a":{"token":"x"}}]}`,
	} {
		plain, err := Decode([]byte(config))
		require.NoError(t, err)
		require.Empty(t, Masked(plain, "config"), config)
		shown, err := Decode(Object([]byte(config)))
		require.NoError(t, err)
		require.NotEmpty(t, Masked(shown, "config"), "%s is shown as %v", config, shown)
	}
}
