package demo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"sync"
	"time"
)

// page is one page of the demo's site.
type page struct{ Path, Title, Body string }

// site is a small site on loopback: pages with a menu, validators, a robots.txt and a page that robots may not read.
type site struct {
	mu    sync.Mutex
	pages []page
	// served counts the pages that were sent whole; those answered "not modified" do not count.
	served map[string]int
	server *http.Server
	url    string
	ended  chan error
}

func startSite(ctx context.Context) (*site, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the demo's site: %w", err)
	}
	s := &site{
		pages: firstPages, served: map[string]int{}, url: "http://" + listener.Addr().String() + "/",
		ended: make(chan error, 1),
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { s.ended <- s.server.Serve(listener) }()
	return s, nil
}

func (s *site) stop() error {
	err := s.server.Close()
	if served := <-s.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// change rewrites one page.
func (s *site) change(path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := append([]page(nil), s.pages...)
	for i := range changed {
		if changed[i].Path == path {
			changed[i].Body = body
		}
	}
	s.pages, s.served = changed, map[string]int{}
}

// ServeHTTP answers for the site.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/robots.txt" {
		_, _ = fmt.Fprintln(w, "User-agent: *\nDisallow: /private")
		return
	}
	for _, p := range s.pages {
		if p.Path != r.URL.Path {
			continue
		}
		tag := fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(p.Title+p.Body)))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		s.served[p.Path]++
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = layout.Execute(w, struct {
			page
			Menu []page
		}{p, s.pages})
		return
	}
	http.NotFound(w, r)
}

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><title>{{.Title}} · The Lighthouse Handbook</title></head>
<body>
<nav><ul>{{range .Menu}}<li><a href="{{.Path}}">{{.Title}}</a></li>{{end}}<li><a href="/private">Staff</a></li></ul></nav>
<main><article><h1>{{.Title}}</h1>
<p>{{.Body}}</p>
</article></main>
<footer>The Lighthouse Handbook, an invention of this demo.</footer>
</body></html>
`))

var firstPages = []page{
	{"/", "Welcome", "This handbook tells what a keeper of the lighthouse does, from the first lamp in the evening to " +
		"the log in the morning. Read the page on lamps first; everything else follows from it."},
	{"/lamps", "Lamps", "The lamp is lit half an hour before sunset. Trim the wick, fill the reservoir with rapeseed oil, and " +
		"polish the Fresnel lens with a chamois until no fingerprint is left on any prism."},
	{"/fog", "Fog", "When the island of Sula disappears in the mist, sound the horn: four seconds of signal, then fifty-six " +
		"seconds of silence, for as long as the fog lasts. Note the beginning and the end in the log."},
	{"/supplies", "Supplies", "The tender comes on the first Monday of a month with oil, flour, coffee and the mail. Order spare " +
		"mantles in autumn: in winter the boat may stay away for six weeks."},
	{"/log", "The log", "Every watch ends with an entry: wind and sea, ships that passed, what was repaired, and the height " +
		"of the barometer. A page that is torn out is replaced and signed by two keepers."},
	{"/private", "Staff", "The password of the pantry is not for crawlers."},
}

const changedPage = "The lamp is lit half an hour before sunset. Since the refit it is electric: check both bulbs, switch the " +
	"rotation on, and keep the old paraffin lantern ready for a power cut."
