// Package fakegraph is Microsoft Graph in process, as far as OneDrive, SharePoint libraries and Teams channels go:
// stateful, with delta tokens, pages, pre-authenticated downloads from another host, and the faults that the real
// service shows. It is written from these pages of the provider's documentation:
//
//   - "driveItem: delta", "driveItem resource type", "Download the contents of a DriveItem", "List children of a
//     driveItem", "Get driveItem", "Access shared items", "Get a SharePoint site", "Get Drive"
//   - "chatMessage: delta", "chatMessage resource type", "List channel messages", "List channel message replies",
//     "Get filesFolder"
//   - "Use delta query to track changes in Microsoft Graph data", "Microsoft Graph error responses and resource types",
//     "Microsoft Graph throttling guidance"
//
// Time is the fake's own: it moves one second with every change.
package fakegraph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// Token is what the API takes as Authorization.
const Token = "Bearer fake-access-token"

// Server is the service. Its knobs may be set before the first request.
type Server struct {
	// PageSize bounds pages whatever is asked for; 0 is 200.
	PageSize int
	// Business leaves the cTag out of deltas, as OneDrive for Business does.
	Business bool
	// ReportBelow reports what lies below a deleted folder by itself. The service does for some drives.
	ReportBelow bool
	// RepeatItems lists items again: an older version before the right one on a page, and the last of a page at
	// the beginning of the next ("driveItem: delta", Remarks).
	RepeatItems bool
	// RepliesHidden leaves a thread out of the delta when only its replies have changed.
	RepliesHidden bool
	// MaxReplies are expanded at once; 0 is 1000.
	MaxReplies int
	hooks      sync.RWMutex // held while before runs
	before     func(r *http.Request)

	api, files *httptest.Server

	mu        sync.Mutex
	now       time.Time
	seq       int64 // of the last change
	epoch     int   // of tokens
	resync    string
	urlEpoch  int
	drives    map[string]*drive
	items     map[string]*item
	kids      map[string]map[string]*item // by parent
	nextID    int
	channels  map[string]*channel
	faults    []*Fault
	requests  []string
	downloads map[string]int
}

// New starts a service; Close ends it.
func New() *Server {
	s := &Server{
		now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), drives: map[string]*drive{}, items: map[string]*item{}, kids: map[string]map[string]*item{},
		channels: map[string]*channel{}, downloads: map[string]int{}, epoch: 1, urlEpoch: 1,
	}
	s.api = httptest.NewServer(http.HandlerFunc(s.serveAPI))
	s.files = httptest.NewServer(http.HandlerFunc(s.serveFile))
	return s
}

// Close ends the service.
func (s *Server) Close() {
	s.api.Close()
	s.files.Close()
}

// Endpoint is the base URL of the API.
func (s *Server) Endpoint() string { return s.api.URL + "/v1.0" }

// Requests returns what the API was asked since the last call, as paths.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests
	s.requests = nil
	return r
}

// Downloads returns how often each item was downloaded since the last call.
func (s *Server) Downloads() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.downloads
	s.downloads = map[string]int{}
	return d
}

// ExpireTokens makes every token given out so far useless. code is what the 410 says, e.g.
// resyncChangesApplyDifferences.
func (s *Server) ExpireTokens(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.resync = code
}

// ExpireURLs makes every download URL given out so far useless.
func (s *Server) ExpireURLs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urlEpoch++
}

// Pass lets time go by.
func (s *Server) Pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// Before has f called with every request before it is answered; nil ends that, and waits for calls under way.
func (s *Server) Before(f func(r *http.Request)) {
	s.hooks.Lock()
	defer s.hooks.Unlock()
	s.before = f
}

func (s *Server) announce(r *http.Request) {
	s.hooks.RLock()
	defer s.hooks.RUnlock()
	if s.before != nil {
		s.before(r)
	}
}

// change moves time and the change log on.
func (s *Server) change() int64 {
	s.seq++
	s.now = s.now.Add(time.Second)
	return s.seq
}

func (s *Server) pageSize(asked int) int {
	most := s.PageSize
	if most <= 0 {
		most = 200
	}
	if asked > 0 && asked < most {
		most = asked
	}
	return most
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	s.announce(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.URL.Path)
	w.Header().Set("Date", s.now.Format(http.TimeFormat))
	if r.Header.Get("Authorization") != Token {
		fail(w, http.StatusUnauthorized, "InvalidAuthenticationToken")
		return
	}
	if s.hit(w, r) {
		return
	}
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/v1.0/")
	if !ok || r.Method != http.MethodGet {
		fail(w, http.StatusBadRequest, "invalidRequest")
		return
	}
	s.route(w, r, strings.Split(path, "/"))
}

// answer writes JSON. A fault may have asked for it to be cut short.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(data)
}

func fail(w http.ResponseWriter, status int, codes ...string) { refuse(w, status, "", codes...) }

func refuse(w http.ResponseWriter, status int, message string, codes ...string) {
	if message == "" {
		message = "a message for developers"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	var inner any
	for i := len(codes) - 1; i >= 0; i-- {
		e := map[string]any{"code": codes[i], "message": message}
		if inner != nil {
			e["innerError"] = inner
		}
		inner = e
	}
	data, _ := json.Marshal(map[string]any{"error": inner})
	_, _ = w.Write(data)
}

// Client authorises and asks again where the service says so, without waiting: the place of the package that does it
// for real.
func (s *Server) Client() *http.Client { return Client() }

// Client is that of any Server, for a process other than its own.
func Client() *http.Client { return &http.Client{Transport: &retrying{authorise: true}} }

// Plain is Client for download URLs.
func (s *Server) Plain() *http.Client { return Plain() }

// Plain is that of any Server.
func Plain() *http.Client { return &http.Client{Transport: &retrying{}} }

type retrying struct{ authorise bool }

func (t *retrying) RoundTrip(r *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		again := r.Clone(r.Context())
		if t.authorise {
			again.Header.Set("Authorization", Token)
		}
		resp, err := http.DefaultTransport.RoundTrip(again)
		if try == 6 || r.Context().Err() != nil {
			return resp, err
		}
		if err == nil {
			if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500 {
				return resp, nil
			}
			_ = resp.Body.Close()
		}
	}
}

func (s *Server) newID(kind string) string {
	s.nextID++
	return fmt.Sprintf("%s!%d", kind, 100+s.nextID)
}
