//go:build node

package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// library is the source that examples/node reads: it lists books and gives their texts.
type library struct {
	url string

	mu    sync.Mutex
	books map[string]string // id to text
	given map[string]int    // how often each was fetched
	lent  string            // a reader waits until it is back
	back  chan struct{}
	asked chan struct{} // somebody waits
}

func newLibrary(t *testing.T) *library {
	t.Helper()
	l := &library{books: map[string]string{}, given: map[string]int{}, back: make(chan struct{}), asked: make(chan struct{}, 100)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /books", l.list)
	mux.HandleFunc("GET /books/{id}", l.give)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	l.url = server.URL
	return l
}

func (l *library) list(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id := range l.books {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	listed := []map[string]string{}
	for _, id := range ids {
		listed = append(listed, map[string]string{"id": id, "title": strings.ToUpper(id), "version": fmt.Sprint(len(l.books[id]))})
	}
	_ = json.NewEncoder(w).Encode(listed)
}

func (l *library) give(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	l.mu.Lock()
	text, lent, back := l.books[id], l.lent == id, l.back
	l.given[id]++
	l.mu.Unlock()
	if lent {
		l.asked <- struct{}{}
		select {
		case <-back:
		case <-r.Context().Done():
			return
		}
	}
	_, _ = w.Write([]byte(text))
}

func (l *library) put(id, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.books[id] = text
}

func (l *library) remove(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.books, id)
}

// lend has readers of a book wait.
func (l *library) lend(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent = id
}

// bringBack gives the book that is lent to those who wait for it, and to everybody after them.
func (l *library) bringBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent = ""
	close(l.back)
	l.back = make(chan struct{})
}

// fetched says how often books were fetched since the last question.
func (l *library) fetched() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	given := l.given
	l.given = map[string]int{}
	return given
}
