package signin

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/echomind/sync/internal/identity"
)

const maxToken = 16 << 10

// algorithms are those whose verifier cannot sign.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// kinds are the values of typ of tokens that say who somebody is.
var kinds = []string{"", "jwt", "at+jwt", "application/at+jwt", "application/jwt"}

// TakesTokens says whether there is an issuer.
func (w *Ways) TakesTokens() bool { return w.keys != nil }

// Token finds out whom a token of the issuer is for. Its error is a Refused or an *Away.
func (w *Ways) Token(ctx context.Context, raw string) (Said, error) {
	claims, err := w.claims(ctx, raw)
	if err != nil {
		return Said{}, err
	}
	if err := w.check(claims, time.Now(), w.config.Audience); err != nil {
		return Said{}, err
	}
	if !givenTo(claims, w.config.Clients) {
		return Said{}, Refused("The token was given to a client that does not count.")
	}
	said, err := w.said(claims)
	if w.config.ScopesClaim != "" {
		said.Scopes = w.scopesOf(claims)
	}
	return said, err
}

// idToken finds out whom an ID token is for that the issuer has given to the page, for a nonce (OpenID Connect Core 1.0, 3.1.3.7).
func (w *Ways) idToken(ctx context.Context, raw, nonce string) (Said, error) {
	claims, err := w.claims(ctx, raw)
	if err != nil {
		return Said{}, err
	}
	if err := w.check(claims, time.Now(), []string{w.config.ClientID}); err != nil {
		return Said{}, err
	}
	if azp, there := claims["azp"]; there && azp != w.config.ClientID || !there && len(audiences(claims["aud"])) > 1 {
		return Said{}, Refused("The ID token was given to another client.")
	}
	if said, _ := claims["nonce"].(string); subtle.ConstantTimeCompare([]byte(said), []byte(nonce)) != 1 {
		return Said{}, Refused("The ID token is not the answer to this sign-in.")
	}
	return w.said(claims)
}

// claims are those of a token that the issuer has signed.
func (w *Ways) claims(ctx context.Context, raw string) (map[string]any, error) {
	if len(raw) > maxToken {
		return nil, Refused("The token is longer than 16 KiB.")
	}
	signed, err := jose.ParseSignedCompact(raw, algorithms)
	if err != nil {
		return nil, Refused("The token is no signed JWT, or is signed with an algorithm that does not count.")
	}
	header := signed.Signatures[0].Protected
	typ, hasType := header.ExtraHeaders[jose.HeaderType]
	if kind, isText := typ.(string); hasType && !isText || !slices.Contains(kinds, strings.ToLower(kind)) {
		return nil, Refused("The token is of a kind that signs nobody in.")
	}
	candidates, err := w.keys.of(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, err
	}
	token, err := oidc.NewVerifier(w.config.Issuer, &oidc.StaticKeySet{PublicKeys: candidates}, &oidc.Config{
		SkipClientIDCheck: true, SkipExpiryCheck: true, SkipIssuerCheck: true, SupportedSigningAlgs: names(algorithms),
	}).Verify(ctx, raw)
	if err != nil {
		return nil, Refused("The token's signature is wrong, or its claims cannot be read.")
	}
	payload, claims := json.RawMessage{}, map[string]any{}
	if err := token.Claims(&payload); err != nil {
		return nil, Refused("The token's claims cannot be read.")
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	if decoder.Decode(&claims) != nil {
		return nil, Refused("The token's claims cannot be read.")
	}
	return claims, nil
}

func names(of []jose.SignatureAlgorithm) (all []string) {
	for _, a := range of {
		all = append(all, string(a))
	}
	return all
}

// google's tokens may have its issuer without the scheme.
const google = "https://accounts.google.com"

// check looks whether a token is the issuer's, for one of an audience, and counts now.
func (w *Ways) check(claims map[string]any, now time.Time, audience []string) error {
	// As they are called: the library takes a claim of another case for one of these.
	issuer, _ := claims["iss"].(string)
	from, hasFrom, fromIs := moment(claims, "nbf")
	issued, hasIssued, issuedIs := moment(claims, "iat")
	expires, hasExpires, expiresIs := moment(claims, "exp")
	_, event := claims["events"]
	switch {
	case issuer != w.config.Issuer && !(w.config.Issuer == google && "https://"+issuer == google):
		return Refused("The token is of another issuer.")
	case !slices.ContainsFunc(audiences(claims["aud"]), func(a string) bool { return slices.Contains(audience, a) }):
		return Refused("The token is not for this API: its aud names others.")
	case event:
		return Refused("The token is of a kind that signs nobody in.")
	case !hasExpires || !expiresIs || hasFrom && !fromIs || hasIssued && !issuedIs:
		return Refused("The token does not say when it counts.")
	case !now.Before(expires.Add(w.config.skew())):
		return Refused("The token has expired.")
	case hasFrom && now.Add(w.config.skew()).Before(from), hasIssued && now.Add(w.config.skew()).Before(issued):
		return Refused("The token does not count yet.")
	}
	return nil
}

// audiences are whom a token is for: a text, or a list of texts (RFC 7519, 4.1.3).
func audiences(aud any) (all []string) {
	list, isList := aud.([]any)
	if !isList {
		list = []any{aud}
	}
	for _, one := range list {
		if text, is := one.(string); is {
			all = append(all, text)
		}
	}
	return all
}

// moment is a claim that is a time, in seconds.
func moment(claims map[string]any, name string) (at time.Time, there, is bool) {
	value, there := claims[name]
	number, is := value.(json.Number)
	if !is {
		return at, there, false
	}
	seconds, err := number.Float64()
	if err != nil || math.Abs(seconds) > 1<<40 {
		return at, there, false
	}
	return time.Unix(int64(seconds), 0), there, true
}

// givenTo says whether a token was given to one of some clients; none of them named: to any. Issuers call it azp, client_id (RFC 9068) or appid.
func givenTo(claims map[string]any, clients []string) bool {
	if len(clients) == 0 {
		return true
	}
	found := false
	for _, name := range []string{"azp", "client_id", "appid"} {
		value, there := claims[name]
		if !there {
			continue
		}
		if client, is := value.(string); !is || !slices.Contains(clients, client) {
			return false
		}
		found = true
	}
	return found
}

// said is what claims mean.
func (w *Ways) said(claims map[string]any) (s Said, err error) {
	s.Issuer, s.Subject, s.Scopes = w.config.Issuer, text(claims, w.config.SubjectClaim), w.scopes
	if !isSubject(s.Subject) {
		return s, Refused("The token does not say who it is: it has no claim for that, or none of 1 to 255 bytes.")
	}
	if before, is := strings.CutSuffix("."+w.config.SubjectClaim, ".email"); is {
		path := strings.TrimPrefix(before+".email_verified", ".")
		if verified, _ := claim(claims, path); verified != true && verified != "true" {
			return s, Refused("The token does not say that its e-mail address is verified.")
		}
	}
	if w.config.UserIDClaim != "" {
		if s.Named, err = named(text(claims, w.config.UserIDClaim)); err != nil {
			return s, err
		}
	}
	if w.config.RolesClaim != "" {
		s.Role = w.role(texts(claims, w.config.RolesClaim))
	}
	if w.config.GroupsClaim != "" {
		s.Groups, s.Leads = w.ours(texts(claims, w.config.GroupsClaim))
	}
	return s, nil
}

// scopesOf are those of ours that a token has.
func (w *Ways) scopesOf(claims map[string]any) (scopes []identity.Scope) {
	var has []string
	for _, text := range texts(claims, w.config.ScopesClaim) { // one text has several, between blanks
		has = append(has, strings.Fields(text)...)
	}
	for _, scope := range w.scopes {
		if slices.Contains(has, w.config.ScopesPrefix+string(scope)) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}
