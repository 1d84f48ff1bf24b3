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
		`{"f":"https://host.example/x?page=2&jwt=REDACTED"}`:     `{"f":"https://host.example/x?page=2&jwt=y"}`,
		`{"author":"ann","passage":"x","keyboard":"y","oath":1}`: `{"author":"ann","passage":"x","keyboard":"y","oath":1}`,
	} {
		require.JSONEq(t, shown, string(Object([]byte(config))), config)
	}
}

// What adversaries have found to be shown as it stood.
func TestNoSecretIsShownThatHasAFormOfItsOwn(t *testing.T) {
	for _, config := range []string{
		`{"headers":["Authorization: Bearer S3CRET.abcDEF"]}`, `{"headers":["Authorization: Basic S3CRETUzND"]}`, `{"a":"Bearer S3CRETabc"}`, `{"a":["Authorization","Bearer S3CRET"]}`,
		`{"a":[["X-Api-Key","S3CRET"],["Accept","*"]]}`, `{"a":["run","--password","S3CRET"]}`, `{"a":{"name":"password","value":"S3CRET"}}`,
		`{"a":[{"header":"X-Api-Key","values":["S3CRET"]}]}`, `{"a":"run --password S3CRET"}`, `{"a":"curl -u bob:S3CRET https://h.example"}`, `{"a":"curl --user=bob:S3CRET"}`,
		`{"a":"ghp_S3CRET0123456789"}`, `{"a":"ems_7_S3CRET0123456789"}`, `{"a":"-----BEGIN PRIVATE KEY-----\nS3CRET\n-----END PRIVATE KEY-----"}`, `{"privatekey":"S3CRET"}`,
		`{"accessKey":"S3CRET"}`, `{"accesskey":"S3CRET"}`, `{"a":"https://maps.example/api?key=S3CRET;v=2"}`, `{"a":"https://x/cb?code=S3CRET%zz"}`, `{"a":"https://x/cb?ticket=S3CRET;x"}`,
		`{"a":" https://x/?key=S3CRET"}`, `{"a":"see https://x/?a=b&key=S3CRET"}`, `{"a":"http://[::1]:bad?key=S3CRET"}`, `{"a":"https://a.example/?q=https://u:S3CRET@h"}`,
		`{"a":"https://a.example/?q=https%3A%2F%2Fu%3AS3CRET%40h"}`, `{"a":"//u:S3CRET@host"}`, `{"a":"http://h.example/missing?q='a'&\"code\"=S3CRET"}`, `{"a":"http://h.example/?<code>=a<S3CRET"}`,
	} {
		shown := string(Object([]byte(config)))
		require.NotContains(t, shown, "S3CRE", config)
		require.Contains(t, shown, Mask, config)
	}
	for _, config := range []string{
		`{"a":["title","author"],"b":["name","key","value"],"c":{"name":"docs","value":"x"},"d":"https://h.example/?page=2&q=a;b=c","e":"curl -u https://h.example","f":"a-user:b"}`,
	} {
		require.JSONEq(t, config, string(Object([]byte(config))))
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
