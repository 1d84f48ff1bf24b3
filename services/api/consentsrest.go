package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/page"
	"github.com/echomind/sync/services/api/internal/problem"
	"github.com/echomind/sync/services/connector/provider"
)

// mostConsents is how many consents of a user may wait at once.
const mostConsents = 20

func (a *API) consentRoutes() {
	register(a, identity.BeginConsent, http.MethodPost, "/connectors/{id}/consents", "Ask for the consent that a connector reads what somebody has at Google or Microsoft", http.StatusCreated, a.beginConsent)
	register(a, identity.GetConsent, http.MethodGet, "/consents/{id}", "Show how a consent that you have begun stands", http.StatusOK, a.getConsent, mayBeMissing)
}

// Consent is a consent that somebody was asked for.
type Consent struct {
	ID          int32      `json:"id"`
	ConnectorID int32      `json:"connector_id"`
	State       string     `json:"state" enum:"waiting,connected,failed,expired"`
	Until       time.Time  `json:"until" doc:"How long an answer is taken."`
	EndedAt     *time.Time `json:"ended_at" doc:"When it was connected, or failed."`
	Problem     *string    `json:"problem" doc:"Why nothing is connected."`
}

// BegunConsent is where somebody consents.
type BegunConsent struct {
	Body struct {
		Consent
		Provider    string   `json:"provider" doc:"Google or Microsoft."`
		Address     string   `json:"address" doc:"The provider's, for one use, to be opened in a browser in which you are signed in at the page of this service."`
		Permissions []string `json:"permissions" nullable:"false" doc:"What is asked for there."`
	}
}

func (a *API) beginConsent(ctx context.Context, in *ByID) (*BegunConsent, error) {
	here, _ := ctx.Value(originKey).(string)
	asked, flow, kept, err := host{a}.asks(ctx, in.number(), here)
	if err != nil {
		return nil, err
	}
	out := &BegunConsent{}
	out.Body.Provider, out.Body.Address, out.Body.Permissions = asked.Provider, asked.Address, append([]string{}, asked.Permissions...)
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		id, err := q.BeginConsent(ctx, dbgen.BeginConsentParams{ConnectorID: in.number(), State: consentState(flow.Begun), Sealed: kept, Most: mostConsents})
		switch {
		case errors.Is(err, pgx.ErrNoRows): // since it was asked about
			return problem.NotFound(fmt.Sprintf("connector %d", in.number()))
		case err != nil:
			return err
		case id == 0:
			return problem.Conflict(fmt.Sprintf("%d consents that you have begun wait.", mostConsents), "Answer one of them, or begin another when the first are ten minutes old.")
		}
		out.Body.Consent, err = viewConsent(ctx, q, id)
		return err
	})
	return out, err
}

// OneConsent is how a consent stands.
type OneConsent struct{ Body Consent }

func (a *API) getConsent(ctx context.Context, in *ByID) (*OneConsent, error) {
	out := &OneConsent{}
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		out.Body, err = viewConsent(ctx, q, in.number())
		return err
	})
	return out, err
}

func viewConsent(ctx context.Context, q *dbgen.Queries, id int32) (none Consent, _ error) {
	c, err := optional(q.GetConsent(ctx, id))
	if err != nil {
		return none, err
	}
	if c == nil {
		return none, problem.NotFound(fmt.Sprintf("consent %d", id))
	}
	return Consent{c.ID, c.ConnectorID, c.State, c.Until.UTC(), utc(c.EndedAt), c.Problem}, nil
}

func consentState(begun provider.Begun) []byte {
	state := sha256.Sum256([]byte(begun.State))
	return state[:]
}

// originOf is the address of this service at which a request came, as a browser writes it: providers compare texts.
func originOf(r *http.Request) string {
	scheme, port := "http", ":80"
	if page.IsSafe(r) {
		scheme, port = "https", ":443"
	}
	return scheme + "://" + strings.TrimSuffix(strings.ToLower(r.Host), port)
}

// begunOverREST is the consent of whom a request serves that an answer is of. The answer must come to the address that the provider was told.
func (h host) begunOverREST(ctx context.Context, answer url.Values, here string) (flow askedConsent, err error) {
	if h.ring == nil || answer.Get("state") == "" {
		return flow, noAnswer()
	}
	var sealed *string
	err = h.in(ctx, func(ctx context.Context, q *dbgen.Queries) (err error) {
		sealed, err = optional(q.ConsentOf(ctx, consentState(provider.Begun{State: answer.Get("state")})))
		return err
	})
	if err != nil {
		return flow, err
	}
	if sealed == nil {
		return flow, noAnswer()
	}
	if flow, err = h.opened(*sealed); err != nil || flow.Redirect != here+page.PathConsent {
		return flow, noAnswer()
	}
	flow.rest = true
	return flow, nil
}

// ended says of a consent that was begun over REST why nothing is connected, and returns that.
func (h host) ended(ctx context.Context, flow askedConsent, why error) error {
	if why == nil || !flow.rest {
		return why
	}
	said := problem.Of(why)
	err := h.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		return q.EndConsent(ctx, dbgen.EndConsentParams{State: consentState(flow.Begun), Why: new(reasonOf(said))})
	})
	if err != nil {
		h.log.Warn("a consent failed, and whoever waits for it is told only when its time is over", "err", err)
	}
	return why
}
