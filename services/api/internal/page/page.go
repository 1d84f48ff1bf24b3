// Package page is what people look at with a browser: sources, their runs, and why something is, or is not, fresh. It is rendered here, from what
// operations of the API answer to whom it serves, and works without a script; what the script adds is small.
//
//	request → headers → files | sign in → cross-site? → whom it serves → operations of the API → template
package page

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/echomind/sync/services/api/internal/problem"
	"github.com/echomind/sync/services/api/internal/signin"
)

// Service is what the page asks for.
type Service interface {
	// For is whom a request serves, in its context: whom a proxy has signed in, else whose session it is.
	For(r *http.Request, session string) (context.Context, Who, error)
	// Ask has an operation of the API done. Its errors are problems.
	Ask(ctx context.Context, operation Operation, into any) (http.Header, error)
	// Watch answers as an operation does that tells what becomes of connectors, or of a run, as it happens: /events or /runs/{run}/events.
	Watch(w http.ResponseWriter, r *http.Request, path string)
	// Begin makes a session of a token, and Open of a link, which is used up.
	Begin(r *http.Request, token string) (session string, err error)
	Open(r *http.Request, code string) (session string, err error)
	// Issuer is the host of the issuer that signs people in; empty: none does.
	Issuer() string
	// Start begins a sign-in at the issuer that leads to a path of the page: at an address, with what the browser keeps meanwhile, if anything.
	Start(r *http.Request, to string) (address, kept string, err error)
	// Finish makes a session of what the issuer has the browser say, and of what it has kept.
	Finish(r *http.Request, kept string) (session, to string, err error)
	// Provider is who gives the consent for connectors of a type; empty: nobody. asks says whether the service has an application that may ask there.
	Provider(connectorType string) (name string, asks bool)
	// AskConsent is where whom a request serves may consent for a connector, and what their browser keeps meanwhile.
	AskConsent(r *http.Request, connector int32) (asked Consent, kept string, err error)
	// TakeConsent gives a connector what a consent has left, by what the provider has the browser say, and by what it has kept, if that was used.
	TakeConsent(r *http.Request, kept string) (connector int32, used bool, err error)
	// End ends the session of the context's user.
	End(ctx context.Context) error
	// Failed has a defect logged.
	Failed(ctx context.Context, err error) *problem.Problem
}

// Who is whom a page is for.
type Who struct {
	UserID  int32
	Role    string
	TokenID int32
	// HasSession says whether there is a session to sign out of: whom a proxy signs in has none here.
	HasSession bool
	// Operates, Writes and Administers are the scopes of the session.
	Operates, Writes, Administers bool
}

// Admin says whether they look after groups.
func (w Who) Admin() bool { return w.Role != "user" }

// Superadmin says whether they look after everything.
func (w Who) Superadmin() bool { return w.Role == "superadmin" }

// Operation is one of the API.
type Operation struct {
	Method, Path  string
	Query         url.Values
	Body          any
	IfMatch, Note string
	// IfNoneMatch is *: only where there is none of the name.
	IfNoneMatch string
	// Key is of a change that is done once, however often its form is sent.
	Key string
	// Form is a body that is passed on as it comes, in place of Body, of FormType.
	Form     io.Reader
	FormType string
}

const (
	// policy lets a page have nothing but what this service serves, and no script or style within itself.
	policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	// maxForm is the longest form of the page, and more.
	maxForm = 64 << 10
	// maxQuery is the longest query of an address, in bytes. A page repeats it in each of its links.
	maxQuery = 4 << 10
)

//go:embed templates assets
var files embed.FS

type pages struct {
	service     Service
	templates   *template.Template
	crossOrigin *http.CrossOriginProtection
}

// New is the page of a service.
func New(service Service) http.Handler {
	p := &pages{service: service, crossOrigin: http.NewCrossOriginProtection()}
	p.templates = template.Must(template.New("").Funcs(template.FuncMap{"asset": assetURL, "parts": partsOf, "pair": func(a, b any) pair { return pair{a, b} }}).ParseFS(files, "templates/*.html"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	mux.HandleFunc("GET /sign-in", p.signInForm)
	mux.HandleFunc("POST /sign-in", p.signIn)
	mux.HandleFunc("GET /sign-in/issuer", p.atIssuer)
	mux.HandleFunc("GET "+signin.PathBack, p.back)
	mux.HandleFunc("POST /sign-out", p.signOut)
	for pattern, handle := range map[string]func(*request) error{
		"GET /{$}":                        p.sources,
		"GET /sources/add":                p.add,
		"POST /sources/add":               p.create,
		"GET /sources/{id}":               p.source,
		"GET /sources/{id}/documents":     p.documents,
		"GET /sources/{id}/schedule":      p.schedule,
		"POST /sources/{id}/schedule":     p.changeSchedule,
		"POST /sources/{id}/files":        p.upload,
		"POST /sources/{id}/files/delete": p.deleteFile,
		"POST /sources/{id}/badge":        p.makeBadge,
		"POST /sources/{id}/badge/revoke": p.revokeBadge,
		"POST /sources/{id}/connect":      p.connect,
		"GET " + PathConsent:              p.connected,
		"POST /sources/{id}/{action}":     p.act,
		"GET /operations":                 p.operations,
		"GET /operations/new":             p.previewOperation,
		"GET /operations/{id}":            p.operation,
		"POST /operations":                p.createOperation,
		"POST /operations/{id}/cancel":    p.cancelOperation,
		"GET /events":                     p.events,
		"GET /search":                     p.search,
		"GET /queue":                      p.queue,
		"GET /runs":                       p.runs,
		"POST /runs/{run}/cancel":         p.cancel,
		"GET /runs/{run}/events":          p.runEvents,
		"GET /problems":                   p.problems,
		"POST /problems/sync":             p.syncFailed,
		"POST /locks/release":             p.release,
		"GET /deadletters":                p.letters,
		"GET /deadletters/reasons":        p.reasons,
		"POST /deadletters/replay":        p.replayReason,
		"POST /deadletters/drop":          p.dropReason,
		"POST /deadletters/operations":    p.createLettersOperation,
		"GET /system":                     p.system,
		"GET /deadletters/{seq}":          p.letter,
		"POST /deadletters/{seq}/replay":  p.replay,
		"POST /deadletters/{seq}/drop":    p.drop,
		"GET /administration":             p.administration,
		"POST /tokens":                    p.createToken,
		"POST /tokens/{id}/revoke":        p.revokeToken,
		"POST /limits/owners":             p.putLimit,
		"POST /limits/owners/delete":      p.deleteLimit,
		"POST /limits/keys":               p.putKeyLimit,
		"POST /limits/keys/delete":        p.deleteKeyLimit,
		"GET /audit":                      p.audit,
		"GET /calendars":                  p.calendars,
		"POST /calendars":                 p.addCalendar,
		"GET /calendars/{name}":           p.calendar,
		"POST /calendars/{name}/{action}": p.changeCalendar,
		"GET /blackouts":                  p.blackouts,
		"POST /blackouts":                 p.addBlackout,
		"GET /blackouts/{name}":           p.blackout,
		"POST /blackouts/{name}":          p.changeBlackout,
		"POST /blackouts/{name}/delete":   p.deleteBlackout,
		"GET /conditions":                 p.conditions,
		"GET /conditions/{name}":          p.condition,
		"/":                               func(*request) error { return problem.NotFound("page") },
	} {
		mux.HandleFunc(pattern, p.forWhom(handle))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("Referrer-Policy", "same-origin")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		if err := p.crossOrigin.Check(r); err != nil {
			(&request{pages: p, ResponseWriter: w, Request: r}).refuse(problem.Forbidden("A browser sends this for a page of another site.", "Send it from a page of this site."))
			return
		}
		if len(r.URL.RawQuery) > maxQuery {
			r.URL.RawQuery = ""
			(&request{pages: p, ResponseWriter: w, Request: r}).refuse(problem.Invalid("address", "is too long; leave away what stands behind its ?"))
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), filesKey{}, r.Body))
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		mux.ServeHTTP(w, r)
	})
}

// request is one of somebody who is signed in.
type request struct {
	*pages
	http.ResponseWriter
	*http.Request
	who  Who
	zone zone
}

// forWhom finds out whom a page serves, and answers with what goes wrong. Who is not signed in is asked to.
func (p *pages) forWhom(handle func(*request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := &request{pages: p, ResponseWriter: w, Request: r, zone: zoneOf(r)}
		ctx, who, err := p.service.For(r, keptIn(r, sessionCookie))
		if err != nil {
			q.refuse(err)
			return
		}
		q.Request, q.who = r.WithContext(ctx), who
		if err := handle(q); err != nil {
			q.refuse(err)
		}
	}
}

// ask is Ask for the request's user.
func (q *request) ask(method, path string, query url.Values, body, into any) error {
	_, err := q.service.Ask(q.Context(), Operation{Method: method, Path: path, Query: query, Body: body}, into)
	return err
}

func (q *request) get(path string, query url.Values, into any) error {
	return q.ask(http.MethodGet, path, query, nil, into)
}

// listed is how a page of a list is asked for, by what the address says: its place, and filters.
func (q *request) listed(filters ...string) url.Values {
	asked := q.placed("page")
	for _, name := range filters {
		if value := q.URL.Query().Get(name); value != "" {
			asked.Set(name, value)
		}
	}
	return asked
}

// placed asks for 50 of a list from the place that the address has under a name.
func (q *request) placed(name string) url.Values {
	asked := url.Values{"page_size": {"50"}}
	if place := q.URL.Query().Get(name); place != "" {
		asked.Set("page_token", place)
	}
	return asked
}

// around are the addresses of the next page and of the first; empty where there is none, or it is this one.
func (q *request) around(asked url.Values, token *string) (next, first string) {
	return q.aroundOf("page", asked, token)
}

// aroundOf is around for a list whose place the address has under a name of its own: there is more than one on its page.
func (q *request) aroundOf(name string, asked url.Values, token *string) (next, first string) {
	if token != nil {
		next = q.with(name, *token)
	}
	if asked.Get("page_token") != "" {
		first = q.with(name, "")
	}
	return next, first
}

// places are the names of what an address says of where lists begin.
var places = []string{"page", "limits", "keys"}

// events has a page that is open be told when to show itself anew.
func (p *pages) events(q *request) error {
	p.service.Watch(q.ResponseWriter, q.Request, "/events")
	return nil
}

// runEvents has a page that shows an open run be told when that has come further.
func (p *pages) runEvents(q *request) error {
	p.service.Watch(q.ResponseWriter, q.Request, "/runs/"+url.PathEscape(q.PathValue("run"))+"/events")
	return nil
}

// common is what every page has.
type common struct {
	Title, At string
	Who       Who
	// SignedIn says whether there is somebody whom the page serves.
	SignedIn bool
	Said     string
	Zone     zone
	Zones    []choice
	// ServiceZone is which one sentences name times in.
	ServiceZone string
}

func (q *request) common(title, at string) common {
	own, _ := time.Now().Zone()
	return common{ServiceZone: own, Title: title, At: at, Who: q.who, SignedIn: q.who.UserID > 0, Said: said[q.URL.Query().Get("said")], Zone: q.zone, Zones: q.zones()}
}

// pair is what a template takes that needs two things.
type pair struct{ A, B any }

// part is a piece of a sentence; a command in it stands between backquotes.
type part struct {
	Text   string
	IsCode bool
}

func partsOf(sentence string) []part {
	var all []part
	for i, text := range strings.Split(sentence, "`") {
		all = append(all, part{text, i%2 == 1})
	}
	return all
}

// render writes a page at once, so that half of one is never seen.
func (q *request) render(status int, name string, view any) {
	var text strings.Builder
	if err := q.templates.ExecuteTemplate(&text, name, view); err != nil {
		p := q.service.Failed(q.Context(), err)
		http.Error(q.ResponseWriter, p.Title, p.Status)
		return
	}
	q.ResponseWriter.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.WriteHeader(status)
	_, _ = q.ResponseWriter.Write([]byte(text.String())) // who has gone away reads nothing
}

// refuse answers with what is wrong. Who is not signed in may sign in there.
func (q *request) refuse(err error) {
	p := problem.Of(err)
	if p.Type == problem.Internal(nil).Type && p.RequestID == "" {
		p = q.service.Failed(q.Context(), err)
	}
	for _, name := range []string{"Retry-After"} {
		if value := p.GetHeaders().Get(name); value != "" {
			q.ResponseWriter.Header().Set(name, value)
		}
	}
	if p.Status == http.StatusUnauthorized {
		q.signInPage(p.Status, signInView{Ended: keptIn(q.Request, sessionCookie) != "", Target: q.target()})
		return
	}
	q.render(p.Status, "problem.html", struct {
		common
		Problem *problem.Problem
	}{q.common(p.Title, ""), p})
}

// hashes are those of the files that pages need, so that a browser keeps each as long as it stays.
var hashes = func() map[string]string {
	of := map[string]string{}
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		panic(err) // they are in the program
	}
	for _, entry := range entries {
		text, err := files.ReadFile("assets/" + entry.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		of[entry.Name()] = hex.EncodeToString(sum[:6])
	}
	return of
}()

func assetURL(name string) string { return "/assets/" + name + "?v=" + hashes[name] }

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	hash, known := hashes[name]
	if !known {
		http.NotFound(w, r)
		return
	}
	text, err := files.ReadFile("assets/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	if r.URL.Query().Get("v") == hash {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(text)
}
