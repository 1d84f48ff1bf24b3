package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/sdk/worker"
)

const (
	// lookAgain is how often a busy provider looks whether it still is.
	lookAgain = 50 * time.Millisecond
	// throttledFor is what a provider that throttles asks to wait, in seconds.
	throttledFor = 60
)

// fakes are HTTP servers that stand for providers of models: GET /NAME/ready and GET /NAME/answer.
type fakes struct {
	pool   *pgxpool.Pool
	server *http.Server
	url    string
}

func serveFakes(ctx context.Context, pool *pgxpool.Pool) (*fakes, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the fake providers: %w", err)
	}
	f := &fakes{pool: pool, url: "http://" + listener.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{name}/ready", f.ready)
	mux.HandleFunc("GET /{name}/answer", f.answer)
	f.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = f.server.Serve(listener) }() // ends with close
	return f, nil
}

func (f *fakes) close() { _ = f.server.Close() }

// ready answers at once, also of a provider that is busy.
func (f *fakes) ready(w http.ResponseWriter, r *http.Request) {
	var status int
	if err := f.pool.QueryRow(r.Context(), `SELECT status FROM civic.providers WHERE name = $1`, r.PathValue("name")).Scan(&status); err != nil {
		status = http.StatusBadGateway
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(throttledFor))
	}
	w.WriteHeader(status)
}

func (f *fakes) answer(w http.ResponseWriter, r *http.Request) {
	for busy := true; busy; {
		err := f.pool.QueryRow(r.Context(), `SELECT busy FROM civic.providers WHERE name = $1`, r.PathValue("name")).Scan(&busy)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if busy {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(lookAgain):
			}
		}
	}
}

// probe asks whether a provider can be used now.
func (f *fakes) probe(name string) func(context.Context) error {
	return func(ctx context.Context) error { return f.get(ctx, name, "ready") }
}

// ask stands for the work: a question to a model.
func (f *fakes) ask(ctx context.Context, name string) error { return f.get(ctx, name, "answer") }

// get is one request. A provider that throttles has its wait kept: a run for which no provider is left is put off for it.
func (f *fakes) get(ctx context.Context, name, what string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/"+name+"/"+what, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	err = fmt.Errorf("%s", response.Status)
	if seconds, bad := strconv.Atoi(response.Header.Get("Retry-After")); bad == nil {
		return worker.Postponed(time.Duration(seconds)*time.Second, err)
	}
	return err
}
