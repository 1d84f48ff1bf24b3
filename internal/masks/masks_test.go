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
		`{"e":"https://host.example/x"}`:                         `{"e":"https://host.example/x#access_token=y"}`,
		`{"f":"https://host.example/x?jwt=REDACTED&page=2"}`:     `{"f":"https://host.example/x?page=2&jwt=y"}`,
		`{"author":"ann","passage":"x","keyboard":"y","oath":1}`: `{"author":"ann","passage":"x","keyboard":"y","oath":1}`,
	} {
		require.JSONEq(t, shown, string(Object([]byte(config))), config)
	}
}
