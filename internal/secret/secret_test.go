package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/internal/secret"
)

const token = "1//0g-refresh-token-of-alice"

// key is a key of our own with an id.
func key(id string) string {
	return id + ":" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id, 32)[:32]))
}

func ring(t *testing.T, keys ...string) *secret.Ring {
	t.Helper()
	r, err := secret.Parse(strings.Join(keys, ","))
	require.NoError(t, err)
	return r
}

func TestWhatIsSealedOpensForItsFieldOfItsConnectorAlone(t *testing.T) {
	r := ring(t, key("a"))
	envelope, err := r.Seal(7, "refresh_token", token)
	require.NoError(t, err)
	require.True(t, secret.IsEnvelope(envelope))
	require.Equal(t, "a", secret.KeyOf(envelope))
	require.NotContains(t, envelope, token)
	text, err := r.Open(7, "refresh_token", envelope)
	require.NoError(t, err)
	require.Equal(t, token, text)

	for name, open := range map[string]func() (string, error){
		"another connector": func() (string, error) { return r.Open(8, "refresh_token", envelope) },
		"another field":     func() (string, error) { return r.Open(7, "client_secret", envelope) },
		"altered":           func() (string, error) { return r.Open(7, "refresh_token", envelope[:len(envelope)-2]+"AA") },
		"cut off":           func() (string, error) { return r.Open(7, "refresh_token", envelope[:20]) },
		"another key, same id": func() (string, error) {
			return ring(t, "a:"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("z", 32)))).Open(7, "refresh_token", envelope)
		},
	} {
		_, err := open()
		require.ErrorIs(t, err, secret.ErrForged, name)
	}
	_, err = ring(t, key("b")).Open(7, "refresh_token", envelope)
	require.ErrorIs(t, err, secret.ErrUnknownKey)
	require.ErrorContains(t, err, "key id a")
	_, err = r.Open(7, "refresh_token", token)
	require.ErrorIs(t, err, secret.ErrPlain)
	require.NotContains(t, err.Error(), token)
	var none *secret.Ring
	_, err = none.Open(7, "refresh_token", envelope)
	require.ErrorIs(t, err, secret.ErrNoKey)
	_, err = none.Seal(7, "refresh_token", token)
	require.ErrorIs(t, err, secret.ErrNoKey)
	require.ErrorContains(t, err, "SECRETS_KEY_FILE")
}

func TestASecretThatIsTooLongIsNeitherSealedNorOpened(t *testing.T) {
	r := ring(t, key("a"))
	long := strings.Repeat("/", secret.MaxBytes)
	sealed, err := r.SealConfig(7, []string{"refresh_token"}, []byte(`{"refresh_token":"`+long+`"}`))
	require.NoError(t, err)
	opened, err := r.OpenConfig(7, []string{"refresh_token"}, sealed)
	require.NoError(t, err)
	require.Equal(t, long, opened["refresh_token"])

	const says = "refresh_token: the secret is too long: 16385 bytes, and at most 16384 are taken"
	_, err = r.SealConfig(7, []string{"refresh_token"}, []byte(`{"refresh_token":"`+long+`/"}`))
	require.ErrorIs(t, err, secret.ErrTooLong)
	require.Equal(t, says+"; give the token or the key file alone", err.Error())
	_, err = r.Seal(7, "refresh_token", long+"/")
	require.ErrorContains(t, err, says)
	envelope := "enc:v1:a:" + base64.RawURLEncoding.EncodeToString(make([]byte, 12+16385+16))
	_, err = r.OpenConfig(7, []string{"refresh_token"}, []byte(`{"refresh_token":"`+envelope+`"}`))
	require.ErrorIs(t, err, secret.ErrTooLong, "sealed by anybody")
	require.ErrorContains(t, err, says)
}

func TestTheFirstKeySealsAndAllOpen(t *testing.T) {
	old := ring(t, key("a"))
	envelope, err := old.Seal(1, "f", token)
	require.NoError(t, err)
	both := ring(t, key("b"), key("a"))
	require.Equal(t, "b", both.Current())
	fresh, err := both.Reseal(1, "f", envelope)
	require.NoError(t, err)
	require.Equal(t, "b", secret.KeyOf(fresh))
	again, err := both.Reseal(1, "f", fresh)
	require.NoError(t, err)
	require.Equal(t, fresh, again, "what is current stays")
	text, err := ring(t, key("b")).Open(1, "f", fresh)
	require.NoError(t, err)
	require.Equal(t, token, text)
}

func TestKeysAreReadFromAFileOrTheEnvironment(t *testing.T) {
	made, err := secret.NewKey()
	require.NoError(t, err)
	_, bare, _ := strings.Cut(made, ":")
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("# the new one\n"+key("b")+"\n\n# the old one\n"+made+"\n"), 0o600))
	r, err := secret.Load(file, "")
	require.NoError(t, err)
	require.Equal(t, "b", r.Current())
	named, err := secret.Load("", made)
	require.NoError(t, err)
	unnamed, err := secret.Load("", bare)
	require.NoError(t, err)
	require.Equal(t, named.Current(), unnamed.Current(), "a key has the same id wherever nobody names it")
	none, err := secret.Load("", " \n")
	require.NoError(t, err)
	require.Nil(t, none)
	require.Empty(t, none.Current())

	for text, says := range map[string]string{
		"a:c2hvcnQ=":              "32 bytes",
		"a:" + token:              "32 bytes",
		"ä:" + bare:               "letters, digits",
		key("a") + "," + key("a"): "twice",
		"# nothing":               "no key",
	} {
		_, err := secret.Parse(text)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), token)
		require.NotContains(t, err.Error(), bare)
	}
	_, err = secret.Load(file, made)
	require.ErrorContains(t, err, "both set")
	_, err = secret.Load(file+".missing", "")
	require.ErrorContains(t, err, "SECRETS_KEY_FILE")
}

func TestOfManyWhoMakeTheKeyFileOneWins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	var group sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		group.Go(func() {
			if err := secret.MakeFile(file); err != nil {
				t.Error(err)
				return
			}
			if r, err := secret.Load(file, ""); err != nil {
				t.Error(err)
			} else {
				ids[i] = r.Current()
			}
		})
	}
	group.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// credentials and config are a source's configuration.
type credentials struct {
	Client string          `json:"client_id"`
	Secret json.RawMessage `json:"client_secret,omitempty" secret:"true"`
	Token  string          `json:"refresh_token,omitempty" secret:"true"`
}

type config struct {
	credentials
	Folder string `json:"folder"`
	Proxy  *struct {
		Password string `json:"password" secret:"true"`
	} `json:"proxy"`
	Ignored string `json:"-" secret:"true"`
}

func TestFieldsAreTaggedInTheConfigAndInWhatItEmbeds(t *testing.T) {
	require.Equal(t, []string{"client_secret", "refresh_token", "proxy.password"}, secret.Fields(&config{}))
	require.Empty(t, secret.Fields(struct{ A []int }{}))
}

func TestAConfigurationIsSealedFieldByFieldAndTheRestStays(t *testing.T) {
	r, fields := ring(t, key("a")), secret.Fields(config{})
	plain := `{"client_id":"c","client_secret":{"private_key":"-----BEGIN <KEY>-----\n","n":12345678901234567890},` +
		`"refresh_token":"` + token + `","folder":"a<b","proxy":{"password":"hunter22"}}`
	sealed, err := r.SealConfig(3, fields, []byte(plain))
	require.NoError(t, err)
	for _, text := range []string{token, "PRIVATE", "private_key", "hunter22"} {
		require.NotContains(t, string(sealed), text)
	}
	require.Contains(t, string(sealed), `"folder":"a<b"`)
	opened, err := r.OpenConfig(3, fields, sealed)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"client_secret": `{"n":12345678901234567890,"private_key":"-----BEGIN <KEY>-----\n"}`,
		"refresh_token": token, "proxy.password": "hunter22",
	}, opened)

	again, err := r.SealConfig(3, fields, sealed)
	require.NoError(t, err)
	require.Equal(t, sealed, again, "what is sealed stays")
	_, err = r.SealConfig(4, fields, sealed)
	require.ErrorIs(t, err, secret.ErrForged, "of another connector it is not taken over")

	var none *secret.Ring
	open, err := none.SealConfig(3, fields, []byte(`{"folder":"x"}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"folder":"x"}`, string(open))
	_, err = none.SealConfig(3, fields, []byte(plain))
	require.ErrorIs(t, err, secret.ErrNoKey)
	_, err = r.OpenConfig(3, fields, []byte(plain))
	require.ErrorIs(t, err, secret.ErrPlain)
	for bad, says := range map[string]string{
		`{"refresh_token":7}`:             "a text or an object",
		`{"refresh_token":""}`:            "is empty",
		`{"refresh_token":"enc:v1:a:!!"}`: "cut off",
		`["` + token + `"]`:               "not a JSON object",
	} {
		_, err := r.SealConfig(3, fields, []byte(bad))
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), token)
	}
}

// Sources decode their configuration without regard to case, so that such a field looks right to whoever writes it.
func TestASecretUnderANameInOtherLettersIsRefusedAndNotStoredAsItIs(t *testing.T) {
	r, fields := ring(t, key("a")), secret.Fields(config{})
	for field, written := range map[string]string{
		"Refresh_Token":  `{"Refresh_Token":"` + token + `"}`,
		"REFRESH_TOKEN":  `{"refresh_token":"x","REFRESH_TOKEN":"` + token + `"}`,
		"refresh_toKen":  `{"refresh_toKen":"` + token + `"}`,
		"proxy.Password": `{"proxy":{"Password":"` + token + `"}}`,
		"Proxy":          `{"Proxy":{"password":"` + token + `"}}`,
	} {
		_, err := r.SealConfig(3, fields, []byte(written))
		require.ErrorContains(t, err, field+": write it as ", written)
		require.NotContains(t, err.Error(), token)
		_, err = r.OpenConfig(3, fields, []byte(written))
		require.ErrorContains(t, err, field+": write it as ", "one that was written by hand")
	}
}

func TestSealingAnewChangesEnvelopesAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOf(rapid.StringMatching(`[a-z_]{1,8}`),
			rapid.Custom(func(t *rapid.T) any {
				return rapid.SampledFrom([]any{1.5, "x", true, nil, map[string]any{"k": "v"}}).Draw(t, "v")
			})).Draw(t, "object")
		object["refresh_token"] = rapid.StringN(1, 80, -1).Draw(t, "secret")
		plain, err := json.Marshal(object)
		require.NoError(t, err)
		old, err := secret.Parse(key("a"))
		require.NoError(t, err)
		both, err := secret.Parse(key("b") + " " + key("a"))
		require.NoError(t, err)
		fields := []string{"refresh_token"}
		sealed, err := old.SealConfig(1, fields, plain)
		require.NoError(t, err)
		fresh, n, err := both.ResealConfig(1, sealed)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		all, left, err := both.Sealed(fresh)
		require.NoError(t, err)
		require.Equal(t, []int{1, 0}, []int{all, left})
		was, err := old.OpenConfig(1, fields, sealed)
		require.NoError(t, err)
		is, err := both.OpenConfig(1, fields, fresh)
		require.NoError(t, err)
		require.Equal(t, was, is)
	})
}

func TestTextsAreCleanedOfSecretsAndOfWhatURLsCarry(t *testing.T) {
	c := secret.NewCleaner(token, "tiny", `with "quotes" & more`)
	for text, want := range map[string]string{
		"refused " + token + "!":                         "refused REDACTED!",
		"a tiny thing":                                   "a tiny thing",
		`Get "https://x.example/f?tempauth=abc": EOF`:    `Get "https://x.example/f?REDACTED": EOF`,
		"https://bob:pw@x.example/f":                     "https://REDACTED@x.example/f",
		"Authorization: Bearer ya29.a0Af_x-y":            "Authorization: Bearer REDACTED",
		"token=with+%22quotes%22+%26+more":               "token=REDACTED",
		"postgres://bob:p@ss@db.example/x?sslpassword=y": "postgres://REDACTED@db.example/x?REDACTED",
		"nats://token@host:4222, tls://other@host":       "nats://REDACTED@host:4222, tls://REDACTED@host",
		"https://x.example/#access_token=abc":            "https://x.example/?REDACTED",
		"host=db user=bob password='pass word' ssl=on":   "host=db user=bob password=REDACTED ssl=on",
		"api_key = abc; Cookie=a-b, client_secret=x":     "api_key=REDACTED; Cookie=REDACTED, client_secret=REDACTED",
		"NATS_USER=bob, authors=3, max_tokens=4, pass":   "NATS_USER=bob, authors=3, max_tokens=4, pass",
		"nothing at all (see https://x.example/y)":       "nothing at all (see https://x.example/y)",
	} {
		require.Equal(t, want, c.Text(text))
	}
	cause := errors.New("cause " + token)
	err := c.Error(fmt.Errorf("outer: %w", cause))
	require.Equal(t, "outer: cause REDACTED", err.Error())
	require.ErrorIs(t, err, cause)
	require.NotContains(t, fmt.Sprintf("%v %+v %s", err, err, err), token)
	require.NoError(t, c.Error(nil))
	var none *secret.Cleaner
	require.Equal(t, "https://x.example/f?REDACTED", none.Text("https://x.example/f?sig=1"))
}
