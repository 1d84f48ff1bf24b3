package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/page"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// sessionName is what tokens of browsers are called: api.end_session and api.open_link know it.
	sessionName = "browser"
	sessionTime = 12 * time.Hour
)

// host is what the page may ask of the service: its operations, for whom they serve, and sessions.
type host struct{ *API }

// pageRoutes serves the page beside the API.
func (a *API) pageRoutes() {
	a.mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		a.refuse(w, r, problem.NotFound("operation "+r.Method+" at this path"))
	})
	a.mux.HandleFunc("GET /badge/{file}", a.badge)
	a.mux.Handle("/", page.New(host{a}))
}

// For finds out whom a request of a browser serves: whom a proxy has signed in, else whose session it has.
func (h host) For(r *http.Request, session string) (context.Context, page.Who, error) {
	request := requestOf(r.Context())
	who, forwarded, err := h.whose(r, session, request.RequestID)
	if err != nil {
		return r.Context(), page.Who{}, h.failed(r.Context(), err)
	}
	request.Who = who
	return context.WithValue(r.Context(), requestKey, request), page.Who{
		UserID: who.UserID, Role: string(who.Role), TokenID: who.TokenID, HasSession: !forwarded, Operates: who.Has(identity.Operate), Writes: who.Has(identity.Write), Administers: who.Has(identity.Administer),
	}, nil
}

func (h host) whose(r *http.Request, session, requestID string) (who identity.Who, forwarded bool, err error) {
	asked := r.Clone(r.Context())
	asked.Header.Del("Authorization")
	peer, _ := r.Context().Value(peerKey).(string)
	_, forwarded, err = h.ways.Headers(r, peer)
	switch {
	case forwarded || err != nil: // and is refused in the same words
	case strings.HasPrefix(session, identity.TokenPrefix):
		asked.Header.Set("Authorization", "Bearer "+session)
	case session != "":
		said, err := h.issuer.Resume(session)
		if err != nil {
			return who, false, refusal(err)
		}
		who, err = h.calledSo(r.Context(), said, requestID)
		return who, false, err
	}
	who, err = h.whoAsks(asked, requestID)
	return who, forwarded, err
}

// Ask has an operation of the API done, as if it had come by itself: with its rule, its checks and its transaction. There is no second way.
func (h host) Ask(ctx context.Context, asked page.Operation, into any) (http.Header, error) {
	if requestOf(ctx).UserID == 0 {
		return nil, h.failed(ctx, problem.Unauthenticated("Nobody is signed in."))
	}
	body, kind := asked.Form, "application/json"
	switch {
	case body != nil:
		kind = asked.FormType
	case asked.Body != nil:
		text, err := json.Marshal(asked.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	address := base + asked.Path
	if len(asked.Query) > 0 {
		address += "?" + asked.Query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, asked.Method, address, body)
	if err != nil {
		return nil, problem.NotFound("such thing")
	}
	for name, value := range map[string]string{"Content-Type": kind, "If-Match": asked.IfMatch, "If-None-Match": asked.IfNoneMatch, headerNote: asked.Note, headerKey: asked.Key} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	w := &kept{header: http.Header{}}
	h.mux.ServeHTTP(w, r)
	switch {
	case w.status >= http.StatusBadRequest:
		p, err := problem.Answered(w.header, w.body.Bytes())
		if err != nil {
			return nil, err
		}
		return nil, p
	case w.status >= http.StatusMultipleChoices: // a path such as "..", which leads to no operation
		return nil, problem.NotFound("such thing")
	}
	if into == nil {
		return w.header, nil
	}
	return w.header, json.Unmarshal(w.body.Bytes(), into)
}

// Watch has an operation answer a browser, whose session no script reads.
func (h host) Watch(w http.ResponseWriter, r *http.Request, path string) {
	asked := r.Clone(r.Context())
	asked.URL.Path, asked.URL.RawPath, asked.Pattern = base+path, "", ""
	h.mux.ServeHTTP(w, asked)
}

// kept is an answer that is kept.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header { return k.header }

func (k *kept) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

func (k *kept) Write(text []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	return k.body.Write(text)
}

// Begin makes a session of a token: one of its own, that was made through it, and counts while it does.
func (h host) Begin(r *http.Request, token string) (session string, err error) {
	token = strings.TrimSpace(token)
	who, err := h.byToken(r, token)
	if err != nil {
		return "", h.failed(r.Context(), err)
	}
	if who.IsSession {
		return "", problem.InvalidToken("This is the session of a browser. Sign in with the token that it was begun with.")
	}
	request, secret := requestOf(r.Context()), identity.NewSecret()
	request.Who = who
	p := dbgen.CreateTokenParams{UserID: who.UserID, Name: sessionName, Role: string(who.Role), Sha256: secret.Hash()}
	for _, scope := range who.Scopes {
		p.Scopes = append(p.Scopes, string(scope))
	}
	var id int32
	err = h.in(context.WithValue(r.Context(), requestKey, request), func(ctx context.Context, q *dbgen.Queries) error {
		now, err := q.Now(ctx)
		if err != nil {
			return err
		}
		until := now.Add(sessionTime)
		p.ExpiresAt = &until
		id, err = q.CreateToken(ctx, p)
		return err
	})
	if err != nil {
		return "", h.failed(r.Context(), err)
	}
	return identity.Token(id, secret), nil
}

// Open makes a session by a link, which is used up.
func (h host) Open(r *http.Request, code string) (session string, err error) {
	if wait := h.strangers.take(r.RemoteAddr, time.Now()); wait > 0 {
		return "", problem.TooMany(int(wait/time.Second) + 1)
	}
	sum, secret := sha256.Sum256([]byte(code)), identity.NewSecret()
	id, err := deadline.Get(r.Context(), "api.sign_in", queryTimeout, func(ctx context.Context) (int32, error) {
		return dbgen.New(h.pool).OpenLink(ctx, dbgen.OpenLinkParams{Link: sum[:], Session: secret.Hash(), Request: requestOf(ctx).RequestID})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", problem.InvalidToken("This link was used already, or has ended. If it was not you who used it, revoke the session that it began.")
	}
	if err != nil {
		return "", h.failed(r.Context(), err)
	}
	h.strangers.give(r.RemoteAddr, time.Now())
	return identity.Token(id, secret), nil
}

// End ends the session that a request is signed in with.
func (h host) End(ctx context.Context) error {
	err := h.in(ctx, func(ctx context.Context, q *dbgen.Queries) error { return q.EndSession(ctx) })
	if err != nil {
		return h.failed(ctx, err)
	}
	return nil
}

// Failed has a defect of the page logged, and is the answer to it.
func (h host) Failed(ctx context.Context, err error) *problem.Problem { return h.failed(ctx, err) }
