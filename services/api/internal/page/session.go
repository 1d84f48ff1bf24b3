package page

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	sessionCookie = "echomind_session"
	// flowCookie has what a sign-in at the issuer needs when it comes back.
	flowCookie = "echomind_flow"
	// sessionSeconds and flowSeconds are how long a browser keeps them. What they hold ends by itself.
	sessionSeconds = 12 * 60 * 60
	flowSeconds    = 10 * 60
	// maxTarget is the longest address that somebody is led to after they have signed in, in bytes.
	maxTarget = 1000
)

// IsSafe says whether a browser asks by https: of this service, or of a proxy that says so.
func IsSafe(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(first), "https")
}

// keptIn is what a browser keeps in a cookie; empty: nothing. With TLS a cookie that is not bound to the host by its name does not count: another host of
// the domain, or somebody on the way of a connection without, may have put it there.
func keptIn(r *http.Request, cookie string) string {
	found, err := r.Cookie(nameOf(r, cookie))
	if err != nil {
		return ""
	}
	return found.Value
}

func nameOf(r *http.Request, cookie string) string {
	if IsSafe(r) {
		return "__Host-" + cookie
	}
	return cookie
}

// keep has a browser keep something in a cookie, or forget it where there is nothing.
func (q *request) keep(cookie, value string, seconds int) {
	if value == "" {
		seconds = -1
	}
	http.SetCookie(q.ResponseWriter, &http.Cookie{
		Name: nameOf(q.Request, cookie), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: IsSafe(q.Request), MaxAge: seconds,
	})
}

// local is a path of this page to go to; anything else is the first page.
func local(target string) string {
	u, err := url.Parse(target)
	if err != nil || len(target) > maxTarget || u.Host != "" || u.Scheme != "" || u.Opaque != "" || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "\\\r\n\t") {
		return "/"
	}
	return target
}

// signInView is what the page shows to somebody who may sign in.
type signInView struct {
	common
	// Ended: they had a session, which counts no more.
	Ended bool
	// Issuer is the host of the issuer that signs people in; Code is of a link that does.
	Issuer, Code, Target, Problem string
}

// signInPage asks somebody to sign in.
func (q *request) signInPage(status int, view signInView) {
	view.common, view.Issuer = q.common("Sign in", ""), q.service.Issuer()
	q.render(status, "signin.html", view)
}

// target is where somebody wanted to go who must sign in first.
func (q *request) target() string {
	if q.Method == http.MethodGet && q.URL.Path != "/sign-in" && q.URL.Path != PathConsent { // whose address has a code
		return local(q.URL.RequestURI())
	}
	return "/"
}

// looksAhead says whether a browser, or what draws a preview, asks before its user does.
func looksAhead(r *http.Request) bool {
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// signInForm signs somebody in by a link that they have typed or pasted, as their browser says. Every other waits for a click: nobody is to be signed in
// as somebody else without knowing it, and no preview of a chat is to use a link up.
func (p *pages) signInForm(w http.ResponseWriter, r *http.Request) {
	q := &request{pages: p, ResponseWriter: w, Request: r, zone: zoneOf(r)}
	code := r.URL.Query().Get("code")
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Method != http.MethodGet || code == "" || site != "none" || looksAhead(r) {
		q.signInPage(http.StatusOK, signInView{Code: code, Target: "/"})
		return
	}
	q.began(p.service.Open(r, code))
}

// signIn signs somebody in by a token, or by a link.
func (p *pages) signIn(w http.ResponseWriter, r *http.Request) {
	q := &request{pages: p, ResponseWriter: w, Request: r, zone: zoneOf(r)}
	if err := r.ParseForm(); err != nil {
		q.refuse(problem.Invalid("form", "cannot be read"))
		return
	}
	if code := r.PostForm.Get("code"); code != "" {
		q.began(p.service.Open(r, code))
		return
	}
	q.began(p.service.Begin(r, r.PostForm.Get("token")))
}

// began keeps a session, and goes on to where somebody wanted to.
func (q *request) began(session string, err error) {
	if err != nil {
		q.refuseSignIn(err, local(q.PostFormValue("to")))
		return
	}
	q.keep(sessionCookie, session, sessionSeconds)
	http.Redirect(q.ResponseWriter, q.Request, local(q.PostFormValue("to")), http.StatusSeeOther)
}

// refuseSignIn says why somebody is not signed in, and asks them again.
func (q *request) refuseSignIn(err error, target string) {
	p := problem.Of(err)
	for name, values := range p.GetHeaders() {
		if name != "WWW-Authenticate" {
			q.ResponseWriter.Header()[name] = values
		}
	}
	q.signInPage(p.Status, signInView{Target: target, Problem: detailOf(p)})
}

// atIssuer sends somebody to the issuer, who signs them in.
func (p *pages) atIssuer(w http.ResponseWriter, r *http.Request) {
	q := &request{pages: p, ResponseWriter: w, Request: r, zone: zoneOf(r)}
	if r.Method != http.MethodGet || looksAhead(r) {
		q.signInPage(http.StatusOK, signInView{Target: local(r.URL.Query().Get("to"))})
		return
	}
	address, kept, err := p.service.Start(r, local(r.URL.Query().Get("to")))
	if err != nil {
		q.refuse(err)
		return
	}
	if kept != "" {
		q.keep(flowCookie, kept, flowSeconds)
	}
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// back takes somebody whom the issuer has sent back.
func (p *pages) back(w http.ResponseWriter, r *http.Request) {
	q := &request{pages: p, ResponseWriter: w, Request: r, zone: zoneOf(r)}
	if r.Method != http.MethodGet || looksAhead(r) {
		q.signInPage(http.StatusOK, signInView{Target: "/"})
		return
	}
	q.keep(flowCookie, "", 0) // one sign-in comes back once
	session, target, err := p.service.Finish(r, keptIn(r, flowCookie))
	if err != nil {
		q.refuseSignIn(err, "/")
		return
	}
	q.keep(sessionCookie, session, sessionSeconds)
	http.Redirect(w, r, local(target), http.StatusSeeOther)
}

// signOut ends the session, and has the browser forget it. Who is not signed in any more signs out, too.
func (p *pages) signOut(w http.ResponseWriter, r *http.Request) {
	q := &request{pages: p, ResponseWriter: w, Request: r, zone: zoneOf(r)}
	var err error
	if kept := keptIn(r, sessionCookie); strings.HasPrefix(kept, identity.TokenPrefix) { // of any other nothing is known but what the browser keeps
		ctx, who, found := p.service.For(r, kept)
		if err = found; err == nil && who.TokenID > 0 {
			err = p.service.End(ctx)
		}
	}
	if status := problem.Of(err).Status; err != nil && (status >= http.StatusInternalServerError || status == http.StatusTooManyRequests) {
		q.refuse(err) // the session may go on: it must not be forgotten
		return
	}
	q.keep(sessionCookie, "", 0)
	q.keep(flowCookie, "", 0)
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}

// detailOf is what a problem says, with the value that is wrong.
func detailOf(p *problem.Problem) string {
	said := p.Detail
	for _, e := range p.Errors {
		said += " " + e.Detail
	}
	if p.Status == http.StatusForbidden {
		said += " " + p.Fix
	}
	return said
}
