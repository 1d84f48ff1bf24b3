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
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// sessionOf is the session of a browser; empty: it has none.
func sessionOf(r *http.Request) string {
	for _, name := range []string{safeCookieName, cookieName} {
		if cookie, err := r.Cookie(name); err == nil && cookie.Value != "" {
			return cookie.Value
		}
	}
	return ""
}

// keep has a browser keep a session, or forget it where there is none.
func keep(w http.ResponseWriter, r *http.Request, session string) {
	cookie := &http.Cookie{Name: cookieName, Value: session, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: isSafe(r), MaxAge: 12 * 60 * 60}
	if cookie.Secure {
		cookie.Name = safeCookieName
	}
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

// signInForm signs somebody in by a link. One that another site leads to waits for a click: nobody is to be signed in as somebody else without knowing it.
func (p *pages) signInForm(w http.ResponseWriter, r *http.Request) {
	q := &request{pages: p, ResponseWriter: w, Request: r, zone: zoneOf(r)}
	code := r.URL.Query().Get("code")
	site := r.Header.Get("Sec-Fetch-Site")
	if code == "" || site != "" && site != "none" || r.Header.Get("Sec-Purpose") != "" {
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
		}{q.common("Sign in", ""), false, "", local(q.PostFormValue("to")), p.Detail})
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
