package secret_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/internal/secret"
)

func TestASecretIsMaskedHoweverItsURLOrItsNameIsWritten(t *testing.T) {
	for _, text := range []string{
		`Get "https://h.example/o'brien/file?key=S3CRET": dial tcp: timeout`,
		`https://c.sharepoint.com/_api/v2.0/drives('b!x')/items('01')/content?tempauth=S3CRET`,
		`https://h/a b?code=S3CRET`, `https://h/a<b?code=S3CRET`, `https://h/x?q="a"&code=S3CRET`, "https://h/x\u00a0y?code=S3CRET",
		`https:/h/x?code=S3CRET`, `https:\\h\x?code=S3CRET`, `mailto:x?token=S3CRET`, `//user:S3CRET@host/x?code=S3CRET`, `/x?session=S3CRET`,
		`https://user:p'S3CRET@host/x`, `https://user:p S3CRET@host/x`, `postgres://u:p"S3CRET@h/db`, `postgres://u:p/S3CRET@h/db`,
		`postgres://u:p#S3CRET@h/db`, `postgres://u:p?S3CRET@h/db`, `postgres://u:1/S3CRET@h/db`, `nats://a/S3CRET@h:4222`, `https://u:12/S3CRET@h`,
		`nats://a:S3CRET@h:4222,nats://b:S3CRET@i:4222`, `https://u:p@S3CRET@h/x?y=a@S3CRET`, `https://u:p/x?y=a@S3CRET`,
		`{"client_secret":"S3CRET","refresh_token": "S3CRET"}`, `{"error":"{\"client_secret\":\"a\\\"S3CRET\",\"x\":1}"}`,
		`client_secret: S3CRET`, `password: hunterS3CRET`, "config:\n  password: lowercase\n  x: 1", `x-api-key: S3CRET`, `the password: S3CRET`,
		`Authorization: Token S3CRET`, `Authorization: Digest username="x", response="S3CRET"`, `Cookie: a=b; sid=S3CRET`, `"Cookie": "a=b; sid=S3CRET"`,
		`PGPASSWORD=S3CRET`, `AccountKey=S3CRET;`, `SharedAccessKey=S3CRET`, `accesskey=S3CRET`, `clientsecret=S3CRET`, `apikey=S3CRET`,
		`client2_secret=S3CRET`, `db.password=S3CRET`, `password%3DS3CRET`, `tempauth=S3CRET`, "password  =\n S3CRET", `password => 'S3CRET'`,
		`password='it\'s S3CRET'`, `password='it''s S3CRET'`, `password=a\ S3CRET`, `password=a"b,S3CRET`, `password=a;S3CRET&S3CRET`, `password='S3CRET`,
		`Bearer "S3CRET"`, `bearer: S3CRET`, "-----BEGIN RSA PRIVATE KEY-----\nS3CRET\n-----END RSA PRIVATE KEY----- and so on",
	} {
		clean := secret.Text(text)
		for _, left := range []string{"S3CRET", "hunter", "lowercase"} {
			require.NotContains(t, clean, left, text)
		}
		require.Contains(t, clean, secret.Mask, text)
		require.Equal(t, clean, secret.Text(clean), "what is clean stays")
	}
}

func TestASecretIsMaskedThoughItsURLIsTypedWrong(t *testing.T) {
	for _, text := range []string{
		"user:S3CRET@host/path", "user:S3CRET@host:5432/db", "https:/user:S3CRET@host/x", "https:user:S3CRET@host/x", "https:///user:S3CRET@host/x",
		`https:\\user:S3CRET@host/x`, "https//user:S3CRET@host/x", "https ://user:S3CRET@host", "https%3A//user:S3CRET@host", "https:／／user:S3CRET@host",
		"https://user%3AS3CRET%40host/x", "https://user%3AS3CRET@host/x", `https:\/\/user:S3CRET@host\/x`, "https%3A%2F%2Fuser%3AS3CRET%40host", "smb:user:S3CRET@host/share",
		"file:/user:S3CRET@host/share", "file:///user:S3CRET@host/../x", "mailto:u:S3CRET@h", "https://host\tx@u:S3CRET@h", "https://host/x;jsessionid=S3CRET",
		`first path segment in URL cannot contain colon: "u:S3CRET@h"`, "https%253A%252F%252Fuser%253AS3CRET%2540host",
	} {
		clean := secret.Text("read " + text + ": it is refused")
		require.NotContains(t, clean, "S3CRET")
		require.Contains(t, clean, ": it is refused")
		require.Equal(t, clean, secret.Text(clean), "what is clean stays")
	}
}

func TestWhatIsTypedWhereAURLBelongsIsShownWithoutWhoMayEnter(t *testing.T) {
	for raw, want := range map[string]string{
		"user:S3CRET@host/path": "REDACTED@host/path", "https:/user:S3CRET@host/x": "REDACTED@host/x", "https://user%3AS3CRET%40host/x": "https://REDACTED@host/x",
		"user:S3CRET x@host": "REDACTED@host", "u:S3CRET\n@h": "REDACTED@h", "https://host\tx@u:S3CRET@h": "https://REDACTED@h", "https://u:pa ss/S3CRET@h/": "https://REDACTED@h/",
		"host/path?S3CRET": "host/path?REDACTED", "x#S3CRET": "x?REDACTED", "https://h.example/x;jsessionid=S3CRET": "https://h.example/x;jsessionid=REDACTED",
		"user＠S3CRET＠host": "REDACTED@host", "postgres://h/S3CRET@x": "postgres://REDACTED@x", "https://user:S3CRET": "https://user:REDACTED", "https://user:S3CRET/more": "https://user:REDACTED/more",
		"https://u:" + strings.Repeat("S3CRET", 1000) + "@h": "https://REDACTED…", "https://h.example/" + strings.Repeat("a", 9): "https://h.example/aaaaaaaaa",
		"https://medium.example/@walrus/a-page": "https://medium.example/@walrus/a-page", "file:///srv/o'brien/a@b.md": "file:///srv/o'brien/a@b.md", "docs": "docs", "": "",
		"https://h.example:8080/a@b": "https://h.example:8080/a@b", "file://C:/x": "file://C:/x", "mailto:bob": "mailto:bob",
	} {
		require.Equal(t, want, secret.Typed(raw, 100))
	}
	require.Equal(t, "https://h.example/"+strings.Repeat("a", 29)+"…", secret.Typed("https://h.example/"+strings.Repeat("a", 9000), 50))
}

func TestASecretIsMaskedHoweverItsPairIsWritten(t *testing.T) {
	for _, text := range []string{
		"password:\n  S3CRET", "password: |\n  S3CRET\n  more S3CRET\n\n  S3CRET", "x: 1\npassword: >-\n  S3CRET", "secret:\n- S3CRET\n- S3CRET", "  - password:\n      S3CRET",
		"passwords: [S3CRET, S3CRET]", `{"password":["S3CRET","a]S3CRET"]}`, "map[X-Api-Key:[S3CRET]]", "password=[S3CRET]", "password={S3CRET}", `{"password":{"value":"S3CRET"}}`,
		`{"credentials":{"u":"x","p":"S3CRET"}}`, "client_secret -> S3CRET", `password := "S3CRET"`, "password == S3CRET", "password：S3CRET", "password＝S3CRET",
		"--password S3CRET", "--client-secret 'a S3CRET'", "run --token S3CRET x", `["--token", "S3CRET"]`, "basic:S3CRETUzND", "bearer=S3CRETxyz", "Authorization: Bearer\nS3CRET",
		`\u0070assword=S3CRET`, `{"p\u0061ssword":"S3CRET"}`, "%70assword=S3CRET", "password%3AS3CRET", "password%253DS3CRET", "password&#61;S3CRET", "password&equals;S3CRET",
		"%22password%22%3A%22S3CRET%22", "passwort=S3CRET", "pw=S3CRET", "api key: S3CRET", "subscription-key=S3CRET", "Ocp-Apim-Subscription-Key: S3CRET", "sas=S3CRET",
		"assertion=S3CRET", "client_assertion=S3CRET", "jwt=S3CRET", "sessionid=S3CRET", "<password>S3CRET</password>", "<ns:client-secret a='b'><![CDATA[S3CRET]]></x>",
		`<add key="password" value="S3CRET"/>`, `name="password" value="S3CRET"`, `{"name":"password","value":"S3CRET"}`, `password=""S3CRET`, "password:''S3CRET",
		"password\x00=S3CRET", "password\u00a0=\u00a0S3CRET", "password: !!str S3CRET", "password: &a S3CRET",
		"-----BEGIN PGP PRIVATE KEY BLOCK-----\nS3CRET", "-----BEGIN+PRIVATE+KEY-----S3CRET", "-----begin private key-----\nS3CRET\n-----end private key-----", "----BEGIN PRIVATE KEY-----\nS3CRET",
		"token eyJhbGciOiJIUzI1NiJ9.S3CRET.sig is malformed", "ghp_0123456789S3CRET",
	} {
		clean := secret.Text(text)
		require.NotContains(t, clean, "S3CRE", text)
		require.Equal(t, clean, secret.Text(clean), "what is clean stays")
	}
}

func TestWhatIsHarmlessStaysReadable(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://h.example/o'brien/f?key=x": dial tcp: timeout`: `Get "https://h.example/o'brien/f?REDACTED": dial tcp: timeout`,
		`(see https://h.example/x?y=1), then`:                        `(see https://h.example/x?REDACTED), then`,
		`{"password":"x","name":"y"}`:                                `{"password":"REDACTED","name":"y"}`,
		`AccountKey=x;EndpointSuffix=core.windows.net`:               `AccountKey=REDACTED;EndpointSuffix=core.windows.net`,
		`a=1&password=x&lang=de`:                                     `a=1&password=REDACTED&lang=de`,
		`password='it''s' dbname=x`:                                  `password=REDACTED dbname=x`,
		"nats://u:p@h:4222,nats://u:p@i:4222":                        "nats://REDACTED@h:4222,nats://REDACTED@i:4222",
	} {
		require.Equal(t, want, secret.Text(text))
	}
	for _, text := range []string{
		"https://medium.example/@walrus/a-page", "http://127.0.0.1:8080/@walrus", "http://localhost:8080/@walrus", "nats://h:4222, nats://i:4222",
		`parse "https://host:port/x": invalid port ":port" after host`, "file:///srv/o'brien/a@b.md", "s3://bucket/a@b.md",
		`get an access token: Post "https://login.example/x": EOF`, "get an access token: login.example answered 400 invalid_grant",
		"config: refresh_token: is empty", `Post "http://127.0.0.1:4/token": the redirect is refused`, "read the server's password: open x: no such file", "keep the rotated refresh token: unexpected EOF",
		"no credentials: give refresh_token, or tenant_id with client_secret", "sign with the service account's key: it is refused",
		"max_tokens=4, authors=3, author: bob, compass: north, tokens: 12", "what? nothing # at all", "token: 12", "the pass is closed",
		`{"service_account":{"client_email":"a@b"}}`, "write to mailto:bob@h.example", "add contoso.example/user:bob@contoso.example to it", "max_tokens: 4", "give --token or --password with it", "at 12:30 bob@h.example, 127.0.0.1:80",
		"the tokens: they are counted", "password:\n  user: bob", "<p>the token</p>", "a:1 b@c", "https://h.example:81/a@b", "the value of a key is missing", "basic knowledge of the bearer tokens.", "-----BEGIN CERTIFICATE-----\nabc",
	} {
		require.Equal(t, text, secret.Text(text))
	}
}

func TestAKnownSecretIsFoundHoweverItIsSpelled(t *testing.T) {
	const known = "abc\"def/gh+ü SECRET"
	c := secret.NewCleaner(known)
	for _, text := range []string{
		known, `abc%22def%2Fgh%2B%C3%BC%20SECRET`, `abc%22def%2fgh%2b%c3%bc+SECRET`, `abc%2522def%252fgh%252b%25c3%25bc%2520SECRET`,
		`abc\u0022def/gh\u002Bü SECRET`, `abc\"def\/gh+\u00fc SECRET`, `abc\\\"def/gh+\\u00FC SECRET`, `abc&quot;def&#47;gh&#x2B;ü SECRET`,
	} {
		require.Equal(t, "["+secret.Mask+"]", c.Text("["+text+"]"), text)
	}
	emoji := secret.NewCleaner("pass🦭word")
	require.Equal(t, secret.Mask, emoji.Text(`pass\ud83e\uddadword`))
}

func TestAParsedURLIsShownWithoutWhatItCarries(t *testing.T) {
	for raw, want := range map[string]string{
		"https://bob:p'w@h.example:81/o'brien/a%20b?x='1'#y": "https://REDACTED@h.example:81/o%27brien/a%20b?REDACTED",
		"https://h.example/x":                                "https://h.example/x",
		"https://h.example/#tok":                             "https://h.example/?REDACTED",
	} {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		require.Equal(t, strings.ReplaceAll(want, "%27", "'"), secret.OfURL(u))
		require.NotContains(t, secret.Error(&url.Error{Op: "Get", URL: raw, Err: errors.New("x")}).Error(), "tok")
	}
}

func TestAQueryOfAnyCharactersIsMasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		filler := rapid.StringMatching(`[!-~]{0,12}`)
		text := "https://h.example/" + strings.Trim(filler.Draw(t, "path"), "@") + "?" + filler.Draw(t, "before") + "S3CRET" + filler.Draw(t, "after")
		if clean := secret.Text(text); strings.Contains(clean, "S3CRET") {
			t.Fatalf("%q became %q", text, clean)
		}
	})
}
