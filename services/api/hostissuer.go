package api

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/echomind/sync/services/api/internal/page"
	"github.com/echomind/sync/services/api/internal/problem"
)

// Issuer is the host of the issuer that signs people in; empty: none does.
func (h host) Issuer() string { return h.issuer.Issuer() }

// Start begins a sign-in at the issuer. Who came by another address than OIDC_PAGE_URL is sent there once: the issuer sends them there in the end, and what
// the browser keeps is kept for one address.
func (h host) Start(r *http.Request, to string) (address, kept string, err error) {
	if h.issuer == nil {
		return "", "", problem.NotFound("issuer that signs people in")
	}
	at, err := url.Parse(h.issuer.Address())
	isHere := err == nil && strings.EqualFold(r.Host, at.Host) && page.IsSafe(r) == (at.Scheme == "https")
	if !isHere && !r.URL.Query().Has("here") {
		return h.issuer.Address() + "/sign-in/issuer?" + url.Values{"here": {"1"}, "to": {to}}.Encode(), "", nil
	}
	address, kept, err = h.issuer.Start(r.Context(), to)
	if err != nil {
		return "", "", h.failed(r.Context(), refusal(err))
	}
	return address, kept, nil
}

// Finish makes a session of the issuer's answer. One to a sign-in of this browser that signs nobody in takes of what the address it comes from may try; any
// other asks nobody, and takes nothing: another site may have the browser ask so.
func (h host) Finish(r *http.Request, kept string) (session, to string, err error) {
	if h.issuer == nil {
		return "", "", problem.NotFound("issuer that signs people in")
	}
	begun, err := h.issuer.Begun(kept, r.URL.Query())
	if err != nil {
		return "", "", h.failed(r.Context(), refusal(err))
	}
	if wait := h.strangers.take(r.RemoteAddr, time.Now()); wait > 0 {
		return "", "", problem.TooMany(int(wait/time.Second) + 1)
	}
	said, to, err := h.issuer.Finish(r.Context(), begun)
	if err == nil {
		_, err = h.calledSo(r.Context(), said, requestOf(r.Context()).RequestID)
	}
	if err == nil {
		session, err = h.issuer.Session(said)
	}
	if err != nil {
		return "", "", h.failed(r.Context(), refusal(err))
	}
	h.strangers.give(r.RemoteAddr, time.Now())
	return session, to, nil
}
