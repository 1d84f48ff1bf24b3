package world

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/echomind/sync/internal/devstack/loopback"
)

// Site is a web server whose pages can be changed. Below /hang it takes a request and never answers.
type Site struct {
	server *http.Server
	addr   string
	ended  chan struct{}

	mu    sync.Mutex
	pages map[string]string
}

func startSite() (*Site, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", loopback.Address(0))
	if err != nil {
		return nil, fmt.Errorf("listen for the site: %w", err)
	}
	s := &Site{addr: listener.Addr().String(), pages: map[string]string{}, ended: make(chan struct{})}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(listener)
	}()
	return s, nil
}

// URL is a page's address; another host name for the hanging part, so that it slows nobody else down.
func (s *Site) URL(path string) string { return "http://" + s.addr + path }

// Put sets a page.
func (s *Site) Put(path, html string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = html
}

// Remove takes a page away.
func (s *Site) Remove(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, path)
}

// Pages are a copy of all pages.
func (s *Site) Pages() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.pages)
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.URL.Path) >= 5 && r.URL.Path[:5] == "/hang" {
		<-r.Context().Done()
		return
	}
	s.mu.Lock()
	page, ok := s.pages[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(page))
}

// Close ends the server and its connections.
func (s *Site) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = s.server.Close()
	}
	<-s.ended
	return err
}
