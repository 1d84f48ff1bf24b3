package tenant

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/echomind/sync/internal/devstack/loopback"
)

// site is a web server of the hostile owner. Each has a port of its own, and so is a host of its own for its crawler.
type site struct {
	server *http.Server
	url    string
	asked  atomic.Int64
	ended  chan struct{}
}

func newSite(answer http.HandlerFunc) (*site, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", loopback.Address(0))
	if err != nil {
		return nil, wrap("listen for a site", err)
	}
	s := &site{url: "http://" + listener.Addr().String(), ended: make(chan struct{})}
	s.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		answer(w, r)
	})}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

func (s *site) close() error {
	err := s.server.Close()
	<-s.ended
	return wrap("close a site", err)
}

// slow has pages without end, and asks for 10 s between two of them.
func slow(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		_, _ = fmt.Fprint(w, "User-agent: *\nCrawl-delay: 10\n")
		return
	}
	w.Header().Set("Content-Type", "text/html")
	_, _ = fmt.Fprintf(w, `<p>%s of many</p><a href="%sa/">a</a> <a href="%sb/">b</a>`, r.URL.Path, r.URL.Path, r.URL.Path)
}

// mute takes requests and never answers.
func mute(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// drip answers at once, and then with a byte now and then.
func drip(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	out := http.NewResponseController(w)
	for {
		if _, err := w.Write([]byte("x")); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// explosive has the bombs that a page may be.
func explosive() http.HandlerFunc {
	all := bombs()
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch name := r.URL.Path[1:]; {
		case name == "":
			_, _ = fmt.Fprint(w, `<p>words</p><a href=adoption.html>1</a><a href=breaks.html>2</a><a href=deep.html>3</a><a href=tables.html>4</a>`)
		case all[name] != "":
			_, _ = fmt.Fprint(w, all[name])
		default:
			http.NotFound(w, r)
		}
	}
}

// sites are all of the owner's.
type sites struct{ slow, mute, drip, explosive *site }

func (s *sites) all() []*site { return []*site{s.slow, s.mute, s.drip, s.explosive} }

func openSites() (*sites, error) {
	s := &sites{}
	var problems []error
	for _, one := range []struct {
		at     **site
		answer http.HandlerFunc
	}{{&s.slow, slow}, {&s.mute, mute}, {&s.drip, drip}, {&s.explosive, explosive()}} {
		opened, err := newSite(one.answer)
		*one.at = opened
		problems = append(problems, err)
	}
	return s, errors.Join(problems...)
}
