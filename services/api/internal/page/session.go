package page

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/echomind/sync/services/api/internal/problem"
)

// The session's cookie. That of a connection with TLS is bound to the host by its name.
const (
	cookieName     = "echomind_session"
	safeCookieName = "__Host-" + cookieName
)

func isSafe(r *http.Request) bool {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return r.TLS != nil || strings.EqualFold(strings.TrimSpace(first), "https")
}

// sessionOf is the session of a browser; empty: it has none. With TLS a cookie that is not bound to the host does not count: another host of the
// domain, or somebody on the way of a connection without, may have put it there.
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieNameOf(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

func cookieNameOf(r *http.Request) string {
	if isSafe(r) {
		return safeCookieName
	}
	return cookieName
}

// keep has a browser keep a session, or forget it where there is none.
func keep(w http.ResponseWriter, r *http.Request, session string) {
	cookie := &http.Cookie{Name: cookieNameOf(r), Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: isSafe(r), MaxAge: 12 * 60 * 60}
	if session == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// local is a path of this page to go to; anything else is the first page.
func local(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Host != "" || u.Scheme != "" || u.Opaque != "" || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "\\\r\n\t") {
		return "/"
	}
	return target
}

// signInPage asks somebody to sign in. ended: they had a session, which counts no more.
func (q *request) signInPage(status int, ended bool, code string) {
	to := "/"
	if q.Method == http.MethodGet && q.URL.Path != "/sign-in" {
		to = local(q.URL.RequestURI())
	}
	q.render(status, "signin.html", struct {
		common
		Ended        bool
		Code, Target string
		Problem      string
	}{q.common("Sign in", ""), ended, code, to, ""})
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
		q.signInPage(http.StatusOK, false, code)
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
		p := problem.Of(err)
		for name, values := range p.GetHeaders() {
			if name != "WWW-Authenticate" {
				q.ResponseWriter.Header()[name] = values
			}
		}
		q.render(p.Status, "signin.html", struct {
			common
			Ended        bool
			Code, Target string
			Problem      string
		}{q.common("Sign in", ""), false, "", local(q.PostFormValue("to")), detailOf(p)})
		return
	}
	keep(q.ResponseWriter, q.Request, session)
	http.Redirect(q.ResponseWriter, q.Request, local(q.PostFormValue("to")), http.StatusSeeOther)
}

// signOut ends the session, and has the browser forget it.
func (p *pages) signOut(q *request) error {
	if err := p.service.End(q.Context()); err != nil {
		return err
	}
	keep(q.ResponseWriter, q.Request, "")
	http.Redirect(q.ResponseWriter, q.Request, "/sign-in", http.StatusSeeOther)
	return nil
}

// detailOf is what a problem says, with the value that is wrong.
func detailOf(p *problem.Problem) string {
	said := p.Detail
	for _, e := range p.Errors {
		said += " " + e.Detail
	}
	return said
}
