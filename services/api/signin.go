package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/shell"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
	"github.com/echomind/sync/services/api/internal/signin"
)

// whoAsks finds out who asks: by a token of ours, by one of the issuer's, or by the headers of a proxy. It is one of these.
func (a *API) whoAsks(r *http.Request, requestID string) (identity.Who, error) {
	peer, _ := r.Context().Value(peerKey).(string)
	said, forwarded, err := a.ways.Headers(r, peer)
	if err != nil {
		return identity.Who{}, refusal(err)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	bearer := strings.EqualFold(scheme, "Bearer") && token != ""
	switch {
	case forwarded && bearer:
		return identity.Who{}, problem.Unauthenticated("The request has a token, and headers of a proxy that say who it is: it must have one of them.")
	case forwarded:
		return a.byHeaders(r, said, requestID)
	case !bearer:
		return identity.Who{}, problem.Unauthenticated("The request has no token.")
	case !a.ways.TakesTokens() || strings.HasPrefix(token, identity.TokenPrefix):
		return a.byToken(r, token)
	}
	return a.byIssuer(r, token, requestID)
}

// byIssuer is whom a token of the issuer's is for. A token that did not count lately uses up a try of its address.
func (a *API) byIssuer(r *http.Request, token, requestID string) (identity.Who, error) {
	sum := sha256.Sum256([]byte(token))
	key, address := string(sum[:]), r.RemoteAddr
	wait, known := a.limiter.takeKnown(key, time.Now())
	if !known {
		wait = a.strangers.take(address, time.Now())
	}
	if wait > 0 {
		return identity.Who{}, problem.TooMany(int(wait/time.Second) + 1)
	}
	said, err := a.ways.Token(r.Context(), token)
	if err != nil {
		a.limiter.forget(key)
		return identity.Who{}, refusal(err)
	}
	who, err := a.calledSo(r.Context(), said, requestID)
	if err == nil && !known {
		a.strangers.give(address, time.Now())
		a.limiter.take(key, time.Now())
	}
	return who, err
}

// byHeaders is whom a proxy has signed in. A browser sends what the proxy knows it by of itself, also where another site has it ask: it may not.
func (a *API) byHeaders(r *http.Request, said signin.Said, requestID string) (identity.Who, error) {
	if err := a.crossOrigin.Check(r); err != nil {
		return identity.Who{}, problem.Forbidden("A browser sends this for a page of another site.", "Send it from a page of this site, or with a token.")
	}
	return a.calledSo(r.Context(), said, requestID)
}

// calledSo is the user whom an issuer calls so, with what is written down of them and what the issuer has said.
func (a *API) calledSo(ctx context.Context, said signin.Said, requestID string) (identity.Who, error) {
	if wait := a.limiter.take(said.Issuer+"\x00"+said.Subject, time.Now()); wait > 0 {
		return identity.Who{}, problem.TooMany(int(wait/time.Second) + 1)
	}
	found, err := deadline.Get(ctx, "api.sign_in", queryTimeout, func(ctx context.Context) (dbgen.SignInRow, error) {
		return dbgen.New(a.pool).SignIn(ctx, dbgen.SignInParams{
			Issuer: said.Issuer, Subject: said.Subject, Named: said.Named, Role: said.Role, MostNew: a.ways.NewUsers(), RequestID: requestID,
		})
	})
	if err != nil {
		return identity.Who{}, err
	}
	if found.Refused != "" {
		return identity.Who{}, problem.Forbidden(nobody[found.Refused],
			fmt.Sprintf("Ask an operator: `echomind users link USER --issuer %s --subject %s`.", shell.Quote(said.Issuer), shell.Quote(said.Subject)))
	}
	return identity.Who{
		UserID: found.UserID, Issuer: said.Issuer, Subject: said.Subject, Role: identity.Role(found.Role), Scopes: said.Scopes,
		Groups: merged(found.Groups, said.Groups), Leads: merged(found.Leads, said.Leads),
		SaidGroups: said.Groups, SaidLeads: said.Leads, SaidRole: said.Role,
	}, nil
}

// nobody is why somebody whom the issuer knows is none of our users.
var nobody = map[string]string{
	"unknown":  "You are signed in as somebody who is no user of this system yet.",
	"unlinked": "You are signed in as somebody who is no user of this system any more.",
	"removed":  "You are signed in as a user who was removed.",
	"many":     "You are signed in as somebody who is no user of this system yet, and no more users are made today.",
}

func merged(known, said []string) []string {
	all := slices.Concat(known, said)
	slices.Sort(all)
	return slices.Compact(all)
}

// refusal is the answer to what is wrong with a way to sign in.
func refusal(err error) error {
	var refused signin.Refused
	var away *signin.Away
	switch {
	case errors.As(err, &refused):
		return problem.InvalidToken(refused.Error())
	case errors.As(err, &away):
		return problem.IssuerAway(int((away.RetryAfter+time.Second-1)/time.Second), err)
	}
	return err
}
