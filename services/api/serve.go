package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	headerRequestID = "X-Request-Id"
	headerNote      = "Audit-Note"
	maxNote         = 2000
	stopTimeout     = 5 * time.Second
)

// Handler is the whole API.
func (a *API) Handler() http.Handler { return withPeer(a.outermost(a.mux)) }

// withPeer remembers who has connected, whatever is said further in of where the request comes from, and at which address.
func withPeer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), peerKey, r.RemoteAddr)
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, originKey, originOf(r))))
	})
}

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// outermost gives a request its id and its deadline, and answers in our words whatever happens below.
func (a *API) outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		id := r.Header.Get(headerRequestID)
		if !requestIDForm.MatchString(id) {
			id = uuid.NewString()
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), a.config.requestTimeout(), &deadline.Error{Name: "api.answer", After: a.config.requestTimeout()})
		defer cancel()
		ctx = context.WithValue(ctx, lastingKey, r.Context())
		r = r.WithContext(context.WithValue(ctx, requestKey, identity.Request{RequestID: id}))
		r.RemoteAddr = a.proxies.client(r)
		header := w.Header()
		header.Set(headerRequestID, id)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		answer := &answer{ResponseWriter: w}
		r = r.WithContext(context.WithValue(r.Context(), answerKey, answer))
		if err := caught.Do(func() error { next.ServeHTTP(answer, r); return nil }); err != nil {
			a.log.Error("a request made the service panic", "request", id, "err", err)
			if answer.status == 0 {
				a.refuse(answer, r, problem.Internal(err))
			}
		}
		if !answer.isStream {
			a.metrics.answered(r.Method, answer.status, time.Since(began))
		}
	})
}

// answer remembers what was answered.
type answer struct {
	http.ResponseWriter
	status int
	// isStream: how long it took is how long somebody has watched, or uploaded.
	isStream bool
}

// WriteHeader is part of http.ResponseWriter.
func (w *answer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write is part of http.ResponseWriter.
func (w *answer) Write(body []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(body)
}

// lasts has the time of a request be another one than most have: how long it takes says nothing of the service.
func (w *answer) lasts(within time.Duration) {
	if w != nil {
		w.isStream = true
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within + stopTimeout)) // a test's writer has none
	}
}

// Unwrap is for http.ResponseController.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuse answers with a problem, outside of any operation.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	p.RequestID = requestOf(r.Context()).RequestID
	w.Header().Set("Content-Type", p.ContentType(""))
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// signIn finds out whom an operation is to serve, and whether its rule allows that.
func (a *API) signIn(ctx huma.Context, next func(huma.Context)) {
	request, err := a.signedIn(ctx)
	if err != nil {
		p := a.failed(ctx.Context(), err)
		for name, values := range p.GetHeaders() {
			for _, value := range values {
				ctx.SetHeader(name, value)
			}
		}
		_ = huma.WriteErr(a.huma, ctx, p.Status, p.Detail, p)
		return
	}
	next(withKey(huma.WithValue(ctx, requestKey, request)))
}

func (a *API) signedIn(ctx huma.Context) (identity.Request, error) {
	request := requestOf(ctx.Context())
	if request.UserID == 0 { // else the page has found out, and asks for whom it serves
		r, _ := humago.Unwrap(ctx)
		who, err := a.whoAsks(r, request.RequestID)
		if err != nil {
			return request, err
		}
		request.Who = who
	}
	if request.Note = ctx.Header(headerNote); len([]rune(request.Note)) > maxNote || strings.ContainsRune(request.Note, 0) {
		return request, problem.Invalid("header."+headerNote, fmt.Sprintf("must have at most %d characters", maxNote))
	}
	return request, allowed(request.Who, ctx.Operation())
}

// byToken is whose token of ours it is.
func (a *API) byToken(r *http.Request, token string) (who identity.Who, err error) {
	id, secret, err := identity.ParseToken(token)
	if err != nil {
		return who, problem.InvalidToken("The token is mistyped, cut, or none of this system's.")
	}
	found, err := a.holder(r, id, secret.Hash())
	if err != nil {
		return who, err
	}
	// The sessions that were begun with a token share one rate, as many as they are.
	if found.SessionOf != 0 {
		if wait := a.limiter.take(fmt.Sprint("sessions of ", found.SessionOf), time.Now()); wait > 0 {
			return who, problem.TooMany(int(wait/time.Second) + 1)
		}
	}
	who = identity.Who{IsSession: found.SessionOf != 0, UserID: found.UserID, TokenID: found.TokenID, Role: identity.Role(found.Role), Groups: found.Groups, Leads: found.Leads}
	for _, scope := range found.Scopes {
		who.Scopes = append(who.Scopes, identity.Scope(scope))
	}
	return who, nil
}

// holder finds out whose a token is. A token that did not count lately uses up a try of its address.
func (a *API) holder(r *http.Request, id int32, hash []byte) (dbgen.AuthenticateRow, error) {
	key, address := string(hash), r.RemoteAddr
	wait, known := a.limiter.takeKnown(key, time.Now())
	if !known {
		wait = a.strangers.take(address, time.Now())
	}
	if wait > 0 {
		return dbgen.AuthenticateRow{}, problem.TooMany(int(wait/time.Second) + 1)
	}
	found, err := deadline.Get(r.Context(), "api.sign_in", queryTimeout, func(ctx context.Context) (dbgen.AuthenticateRow, error) {
		return dbgen.New(a.pool).Authenticate(ctx, dbgen.AuthenticateParams{ID: id, Sha256: hash})
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		a.limiter.forget(key)
		return found, problem.InvalidToken("The token is unknown, has ended, or was revoked.")
	case err == nil && !known:
		a.strangers.give(address, time.Now())
		a.limiter.take(key, time.Now())
	}
	return found, err
}

func allowed(who identity.Who, operation *huma.Operation) error {
	asked := operation.Metadata[operationKey].(identity.Operation)
	rule := identity.RuleOf(asked)
	switch {
	case !who.HasOne(identity.ScopesOf(asked)):
		return problem.InsufficientScope(string(rule.Scope))
	case !who.Role.AtLeast(rule.Role):
		return problem.Forbidden(fmt.Sprintf("This is for those with the role %s.", rule.Role), "Ask somebody who has it.")
	}
	return nil
}

// serve listens until ctx ends.
func (a *API) serve(ctx context.Context, started func(string)) error {
	listener, err := Listen(ctx, a.config.Addr)
	if err != nil {
		return err
	}
	if started != nil {
		started(listener.Addr().String())
	}
	places := bounded(listener, a.config.MaxConnections)
	server := &http.Server{
		ConnState: places.note, Handler: a.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, WriteTimeout: a.config.requestTimeout() + 15*time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
	}
	server.RegisterOnShutdown(a.watchers.end)
	served := make(chan error, 1)
	go func() { served <- server.Serve(places) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the API: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = server.Shutdown(stop)
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	if err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// Listen opens API_ADDR, and says what to do where that is not possible.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on API_ADDR %q: another program listens there; stop it, or set API_ADDR to a free address: %w", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on API_ADDR %q: %w", addr, err)
	}
	return listener, nil
}
