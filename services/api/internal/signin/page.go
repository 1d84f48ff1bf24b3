package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/secret"
)

const (
	// PathBack is where the issuer sends people back to.
	PathBack = "/sign-in/back"
	// PageTime is how long a session of the page lasts that the issuer has begun: for so long what it has said of somebody is believed.
	PageTime = time.Hour
	// flowTime is how long somebody may take to sign in.
	flowTime = 10 * time.Minute
	maxCode  = 4 << 10
)

// Page has the issuer sign the page's visitors in: the authorization code flow of OpenID Connect Core 1.0, 3.1, with PKCE (RFC 7636). What it must remember
// between two requests the browser keeps, sealed, so that any replica may go on.
type Page struct {
	ways *Ways
	seal seal
	log  *slog.Logger
	// says is no concern of the tokens of programs.
	says fetched[*metadata]
}

// metadata is what the issuer says of itself (OpenID Connect Discovery 1.0, 3).
type metadata struct {
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	// NamesItself: its answers say whose they are (RFC 9207).
	NamesItself bool `json:"authorization_response_iss_parameter_supported"`
}

// flow is a sign-in that has begun.
type flow struct {
	State, Nonce, Verifier, To string
	Until                      time.Time
}

// Flow is a sign-in that the issuer has answered.
type Flow struct {
	flow
	answer url.Values
}

// NewPage makes the page's way to sign in; nil where the configuration, which is valid, has none. It asks nobody.
func NewPage(w *Ways, ring *secret.Ring, log *slog.Logger) *Page {
	if w.config.ClientID == "" {
		return nil
	}
	p := &Page{ways: w, seal: newSeal(ring, w.config.ClientSecret), log: log}
	p.says.ask, p.says.now = p.ask, time.Now
	p.says.warn = func(err error) {
		log.Warn("the issuer does not say where the page's visitors sign in", "issuer", w.config.Issuer, "err", clipped(err))
	}
	return p
}

// Issuer is the host that signs people in; empty: none does.
func (p *Page) Issuer() string {
	if p == nil {
		return ""
	}
	at, err := url.Parse(p.ways.config.Issuer)
	if err != nil {
		return p.ways.config.Issuer
	}
	return at.Host
}

// Address is the page's own, without a path.
func (p *Page) Address() string { return strings.TrimSuffix(p.ways.config.PageURL, "/") }

// Start begins a sign-in that leads to a path of the page. address is where the browser goes; kept is what it keeps meanwhile, for at most ten minutes.
func (p *Page) Start(ctx context.Context, to string) (address, kept string, err error) {
	issuer, err := p.metadata(ctx)
	if err != nil {
		return "", "", err
	}
	f := flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), To: to, Until: time.Now().Add(flowTime)}
	if kept, err = p.seal.close("flow", f); err == nil && len(kept) > maxKept {
		f.To = "/" // a browser would not keep it
		kept, err = p.seal.close("flow", f)
	}
	if err != nil {
		return "", "", err
	}
	return p.client(issuer).AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), kept, nil
}

// Begun is the sign-in that the browser has kept and that the issuer has it answer. It asks nobody. Its error is a Refused.
func (p *Page) Begun(kept string, answer url.Values) (*Flow, error) {
	var f flow
	if p.seal.open("flow", kept, &f) != nil || !time.Now().Before(f.Until) {
		return nil, Refused("This sign-in was not begun in this browser, or has taken more than ten minutes. Begin it again.")
	}
	for _, name := range []string{"state", "code", "iss", "error"} {
		if len(answer[name]) > 1 {
			return nil, Refused("The issuer's answer has " + name + " twice.")
		}
	}
	if subtle.ConstantTimeCompare([]byte(f.State), []byte(answer.Get("state"))) != 1 {
		return nil, Refused("This is the answer to another sign-in than the one that this browser began last. Begin it again.")
	}
	return &Flow{f, answer}, nil
}

// Finish ends a sign-in. It returns who it is, and where they wanted to go. Its error is a Refused or an *Away.
func (p *Page) Finish(ctx context.Context, begun *Flow) (said Said, to string, err error) {
	f, answer := begun.flow, begun.answer
	issuer, err := p.metadata(ctx)
	if err != nil {
		return Said{}, "", err
	}
	from, named := answer.Get("iss"), answer.Has("iss")
	code := answer.Get("code")
	switch {
	case named && from != p.ways.config.Issuer, !named && issuer.NamesItself:
		return Said{}, "", Refused("The answer is of another issuer.")
	case answer.Get("error") != "":
		return Said{}, "", Refused("The issuer has signed nobody in" + reason(answer.Get("error")) + ".")
	case code == "" || len(code) > maxCode:
		return Said{}, "", Refused("The issuer's answer has no code.")
	}
	raw, err := p.redeem(ctx, issuer, code, f.Verifier)
	if err != nil {
		return Said{}, "", err
	}
	said, err = p.ways.idToken(ctx, raw, f.Nonce)
	return said, f.To, err
}

// errorForm is what an error of RFC 6749 is made of.
var errorForm = regexp.MustCompile(`^[a-z_]{1,60}$`)

func reason(code string) string {
	if !errorForm.MatchString(code) {
		return ""
	}
	return ": " + code
}

func (p *Page) client(issuer *metadata) *oauth2.Config {
	style := oauth2.AuthStyleInHeader // as the specification has it where the issuer says nothing
	if len(issuer.Methods) > 0 && !slices.Contains(issuer.Methods, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	c := p.ways.config
	return &oauth2.Config{
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Scopes: c.PageScopes, RedirectURL: p.Address() + PathBack,
		Endpoint: oauth2.Endpoint{AuthURL: issuer.Authorization, TokenURL: issuer.Token, AuthStyle: style},
	}
}

// redeem has the issuer give the ID token for a code.
func (p *Page) redeem(ctx context.Context, issuer *metadata, code, verifier string) (string, error) {
	token, err := deadline.Get(ctx, "oidc.code", fetchTimeout, func(ctx context.Context) (*oauth2.Token, error) {
		return p.client(issuer).Exchange(oidc.ClientContext(ctx, p.ways.keys.client), code, oauth2.VerifierOption(verifier))
	})
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "invalid_grant":
		return "", Refused("The issuer does not take its code any more. Begin the sign-in again.")
	case errors.As(err, &refused) && refused.ErrorCode != "":
		p.log.Warn("the issuer does not say who has signed in", "issuer", p.ways.config.Issuer, "error", strings.TrimPrefix(reason(refused.ErrorCode), ": "))
		return "", Refused("The issuer does not tell this page who has signed in" + reason(refused.ErrorCode) + ". An operator must look at OIDC_CLIENT_ID and OIDC_CLIENT_SECRET.")
	case err != nil:
		return "", &Away{RetryAfter: fetchPause, cause: errors.New("the issuer does not redeem its code")} // the error may have the code in it
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return "", Refused("The issuer has given no ID token.")
	}
	return raw, nil
}

// metadata is what the issuer says of itself, as it was said lately.
func (p *Page) metadata(ctx context.Context) (*metadata, error) {
	found, away := p.says.get(ctx, func(*metadata) bool { return false })
	if away != nil {
		return nil, away
	}
	return found, nil
}

func (p *Page) ask(ctx context.Context) (*metadata, error) {
	provider, err := deadline.Get(oidc.ClientContext(ctx, p.ways.keys.client), "oidc.discovery", fetchTimeout, func(ctx context.Context) (*oidc.Provider, error) {
		return oidc.NewProvider(ctx, p.ways.config.Issuer)
	})
	if err != nil {
		return nil, err
	}
	var found metadata
	var document json.RawMessage
	if err := errors.Join(provider.Claims(&document), json.Unmarshal(document, &found)); err != nil {
		return nil, errors.New("discovery: it cannot be read")
	}
	for name, text := range map[string]string{"authorization_endpoint": found.Authorization, "token_endpoint": found.Token} {
		if at, err := url.Parse(text); err != nil || at.Host == "" || at.User != nil || !safe(at) {
			return nil, errors.New("discovery: " + name + " is no URL with https")
		}
	}
	return &found, nil
}
