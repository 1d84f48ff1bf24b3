package api

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/page"
	"github.com/echomind/sync/services/api/internal/problem"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/services/connector/provider"
)

const (
	// consentTime is how long somebody may take to consent.
	consentTime = 10 * time.Minute
	// redeemTimeout bounds how long the provider may take to redeem a code.
	redeemTimeout = 8 * time.Second
	// mostConsent is the longest that a browser keeps of a consent, in bytes.
	mostConsent = 3800
	// consentPurpose is what it is sealed as.
	consentPurpose = "page.consent"
	// consentNote is what the audit says of it.
	consentNote = "consent in a browser"
)

// askedConsent is a consent that somebody was asked for, as their browser keeps it, sealed.
type askedConsent struct {
	provider.Begun
	Connector, UserID int32
	Type, Redirect    string
	// Readers are who finds what is stored, as it was said.
	Readers string
	Until   time.Time

	// rest: it was begun over REST, and is kept by the service.
	rest bool
}

// isOf returns an error where the connector is not any more what somebody was asked about.
func (f askedConsent) isOf(c dbgen.ApiChangeable) error {
	switch {
	case c.Type != f.Type:
		return problem.Conflict("The source has another type meanwhile.", "Connect it again.")
	case readersOf(c) != f.Readers:
		return problem.Conflict("Other people find what is stored of the source than when you were asked.", "Connect it again.")
	}
	return nil
}

func readersOf(c dbgen.ApiChangeable) string {
	switch {
	case c.ScopeID != nil:
		return c.Scope + " " + *c.ScopeID
	case c.UserID != nil:
		return fmt.Sprint(c.Scope, " of ", *c.UserID)
	}
	return c.Scope
}

// Provider is who gives the consent for connectors of a type; empty: nobody. asks says whether this service has an application that may ask there.
func (h host) Provider(connectorType string) (name string, asks bool) {
	switch c := h.config.Consent; connectorType {
	case consent.GoogleDrive:
		return "Google", c.GoogleClientID != "" && h.ring != nil
	case consent.OneDrive, consent.Teams:
		return "Microsoft", c.MicrosoftClientID != "" && h.ring != nil
	}
	return "", false
}

// AskConsent is where whom a request serves may consent that a connector reads what they have at its provider, and what their browser keeps meanwhile.
func (h host) AskConsent(r *http.Request, id int32) (asked page.Consent, kept string, err error) {
	asked, _, kept, err = h.asks(r.Context(), id, originOf(r))
	if err != nil {
		return asked, "", h.failed(r.Context(), err)
	}
	return asked, kept, nil
}

// asks begins a consent for a connector; what is kept of it is sealed.
func (h host) asks(ctx context.Context, id int32, here string) (asked page.Consent, flow askedConsent, kept string, err error) {
	c, err := h.connects(ctx, id)
	if err != nil {
		return asked, flow, "", err
	}
	flow = askedConsent{Connector: id, UserID: requestOf(ctx).UserID, Type: c.Type, Readers: readersOf(c), Until: time.Now().Add(consentTime)}
	if flow.Redirect, err = h.comesBackTo(here); err != nil {
		return asked, flow, "", err
	}
	code, err := h.codeOf(c, flow.Redirect)
	if err != nil {
		return asked, flow, "", problem.Invalid("config", err.Error())
	}
	asked.Provider, _ = h.Provider(c.Type)
	asked.Address, flow.Begun = code.Begin()
	asked.Name, asked.Scope, asked.Permissions = c.Name, c.Scope, code.Scopes
	text, err := json.Marshal(flow)
	if err == nil {
		kept, err = h.ring.Seal(0, consentPurpose, string(text))
	}
	if err == nil && len(kept) > mostConsent {
		err = problem.Invalid("address", "of this page is too long for a browser to keep")
	}
	return asked, flow, kept, err
}

// TakeConsent gives the connector what a consent has left, and returns which it is. The browser must be the one that was asked, of the same user; of a consent that was
// begun over REST, one in which that user is signed in. used says that it is what the browser has kept that was answered.
func (h host) TakeConsent(r *http.Request, kept string) (id int32, used bool, err error) {
	answer := r.URL.Query()
	flow, err := h.opened(kept)
	used = err == nil && flow.Answers(answer)
	if !used {
		flow, err = h.begunOverREST(r.Context(), answer, originOf(r))
	}
	if err == nil && (flow.UserID != requestOf(r.Context()).UserID || !flow.Answers(answer)) {
		err = noAnswer()
	}
	if err != nil {
		return 0, used, h.failed(r.Context(), err)
	}
	if err := h.take(r.Context(), flow, answer); err != nil {
		return 0, used, h.failed(r.Context(), err)
	}
	return flow.Connector, used, nil
}

// take redeems the answer to a consent, and gives its connector what that leaves.
func (h host) take(ctx context.Context, flow askedConsent, answer url.Values) error {
	c, err := h.connects(ctx, flow.Connector)
	if err == nil {
		err = flow.isOf(c)
	}
	if err != nil && (postgres.Locked(err) || problem.Of(err).Status >= http.StatusInternalServerError) {
		return err // it waits on: its code is not used
	}
	if err != nil {
		return h.ended(ctx, flow, err)
	}
	code, err := h.codeOf(c, flow.Redirect)
	if err != nil {
		return h.ended(ctx, flow, problem.Invalid("config", err.Error()))
	}
	if err := h.takeOnce(ctx, flow.Begun); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // a code is good once: what it leaves is kept also where the browser is gone; each step has its deadline
	token, err := deadline.Get(ctx, "api.consent", redeemTimeout, func(ctx context.Context) (string, error) { return code.Redeem(ctx, answer, flow.Begun) })
	if err != nil {
		return h.ended(ctx, flow, refusedConsent(err))
	}
	return h.ended(ctx, flow, h.connected(ctx, flow, token))
}

func noAnswer() error {
	return problem.Conflict("This is no answer to what this browser was asked last, or it has taken more than ten minutes.", "Connect the source again.")
}

// takeOnce takes the state of a consent, which is committed before its code is redeemed: of two answers at once, one is redeemed. A provider may take a second use of a code for a theft, and
// end what the first has given.
func (h host) takeOnce(ctx context.Context, begun provider.Begun) error {
	state := consentState(begun)
	return h.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		// No client's key has a blank.
		taken, err := q.BeginRequest(ctx, dbgen.BeginRequestParams{Key: "consent " + hex.EncodeToString(state), Asked: state})
		if err == nil && taken.Again {
			err = problem.Conflict("This answer was taken before, and is good once. What came of it is seen at the source: where the service has stopped meanwhile, nothing is connected.", "Look at the source; if it is not connected, connect it again.")
		}
		return err
	})
}

// opened is what a browser has kept of a consent.
func (h host) opened(kept string) (flow askedConsent, err error) {
	if kept == "" || len(kept) > mostConsent || h.ring == nil {
		return flow, errors.New("nothing is kept")
	}
	text, err := h.ring.Open(0, consentPurpose, kept)
	if err == nil {
		err = json.Unmarshal([]byte(text), &flow)
	}
	if err == nil && !time.Now().Before(flow.Until) {
		err = errors.New("it is too old")
	}
	return flow, err
}

// connects is the connector that somebody is about to connect, if they may change it, and it can be connected.
func (h host) connects(ctx context.Context, id int32) (c dbgen.ApiChangeable, err error) {
	if err := h.mayConnect(ctx); err != nil {
		return c, err
	}
	err = h.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		c, err = locked(ctx, q, id)
		return err
	})
	if err != nil {
		return c, err
	}
	name, asks := h.Provider(c.Type)
	switch {
	case name == "":
		return c, problem.Conflict(fmt.Sprintf("Connector %d is of type %s, which needs nobody's consent.", id, c.Type), "Change its configuration.")
	case !asks:
		return c, problem.Conflict("This service has no application that may ask "+name+".", "Ask an operator to set CONNECTOR_"+strings.ToUpper(name)+"_CLIENT_ID, and SECRETS_KEY, of the API; or use `echomind connect "+strings.ToLower(name)+"`.")
	}
	return c, nil
}

func (h host) mayConnect(ctx context.Context) error {
	if rule, who := identity.RuleOf(identity.UpdateConnector), requestOf(ctx).Who; !who.Has(rule.Scope) {
		return problem.InsufficientScope(string(rule.Scope))
	}
	return nil
}

// connected writes what a consent has left.
func (h host) connected(ctx context.Context, flow askedConsent, token string) error {
	request := requestOf(ctx)
	request.Note = consentNote
	return h.in(context.WithValue(ctx, requestKey, request), func(ctx context.Context, q *dbgen.Queries) error {
		old, err := locked(ctx, q, flow.Connector)
		if err != nil {
			return err
		}
		if err := flow.isOf(old); err != nil {
			return err
		}
		p := paramsOf(old)
		if p.Config, err = consent.Put(p.Config, nil, token); err != nil {
			return problem.Invalid("config", err.Error())
		}
		if err := h.update(ctx, q, p, old); err != nil || !flow.rest {
			return err
		}
		return q.EndConsent(ctx, dbgen.EndConsentParams{State: consentState(flow.Begun)})
	})
}

// comesBackTo is where the provider sends the browser back to: an address that an operator has registered there, and the one that the browser keeps
// things for.
func (h host) comesBackTo(here string) (string, error) {
	if h.issuer != nil && !strings.EqualFold(here, h.issuer.Address()) {
		return "", problem.Conflict("The page is open at another address than its own.", "Open it at "+h.issuer.Address()+", and connect the source there.")
	}
	return here + page.PathConsent, nil
}

// codeOf is how the consent for a connector is had, with this service's application.
func (h host) codeOf(c dbgen.ApiChangeable, redirect string) (code provider.Code, err error) {
	asks := h.config.Consent
	if c.Type == consent.GoogleDrive {
		code = asks.Google(consent.Application{ID: asks.GoogleClientID, Secret: asks.GoogleClientSecret})
		code.Redirect = redirect
		return code, nil
	}
	var config struct {
		Tenant string `json:"tenant_id"`
		Site   string `json:"site"`
	}
	if err := json.Unmarshal(c.Config, &config); err != nil {
		return code, errors.New("has a tenant_id or a site that is no text")
	}
	code, err = asks.Microsoft(c.Type, consent.Application{
		ID: asks.MicrosoftClientID, Secret: asks.MicrosoftClientSecret, Tenant: config.Tenant, Sites: config.Site != "",
	})
	code.Redirect = redirect
	return code, err
}

// refusedConsent is the answer where a provider has given nothing.
func refusedConsent(err error) error {
	var said *provider.Error
	if errors.As(err, &said) && said.Status < http.StatusInternalServerError && said.Status != http.StatusTooManyRequests {
		return problem.Conflict("Nothing is connected: "+said.Error()+".", "Connect the source again.")
	}
	return problem.ProviderAway(err) // or it has answered what is no token
}
