// Package telemetry serves a process's health, readiness and metrics, and makes its logger.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/secret"
)

// checkTimeout bounds one readiness check.
const checkTimeout = 2 * time.Second

// Check returns nil while a part of the process is ready, and otherwise the reason.
type Check func(context.Context) error

// Readiness collects the checks of the services that share a process. It is safe for concurrent use.
type Readiness struct {
	mu     sync.Mutex
	checks map[string]Check
	notes  map[string]func() string
}

// Add registers a check under a name; a second one of that name replaces the first.
func (r *Readiness) Add(name string, check Check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checks == nil {
		r.checks = map[string]Check{}
	}
	r.checks[name] = check
}

// Note registers a remark that makes nothing unready, such as who leads.
func (r *Readiness) Note(name string, say func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes == nil {
		r.notes = map[string]func() string{}
	}
	r.notes[name] = say
}

// Notes returns the current remarks.
func (r *Readiness) Notes() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	said := make(map[string]string, len(r.notes))
	for name, say := range r.notes {
		said[name] = say()
	}
	return said
}

// Ask runs every check and returns how many there are, and the problems.
func (r *Readiness) Ask(ctx context.Context) (asked int, problems map[string]string) {
	r.mu.Lock()
	checks := make(map[string]Check, len(r.checks))
	for name, check := range r.checks {
		checks[name] = check
	}
	r.mu.Unlock()

	type answer struct{ name, problem string }
	answers := make(chan answer, len(checks))
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	problems = map[string]string{}
	for name, check := range checks {
		problems[name] = (&deadline.Error{Name: name, After: checkTimeout}).Error()
		go func() {
			a := answer{name: name}
			if err := check(ctx); err != nil {
				a.problem = err.Error()
			}
			answers <- a
		}()
	}
	// A check that ignores its context is not waited for.
	for range checks {
		select {
		case a := <-answers:
			problems[a.name] = a.problem
		case <-ctx.Done():
		}
	}
	maps.DeleteFunc(problems, func(_, problem string) bool { return problem == "" })
	return len(checks), problems
}

// Serve serves /healthz, /readyz and /metrics on addr until ctx ends. With an empty addr it serves nothing. started, if not
// nil, gets the address that it listens on.
func Serve(ctx context.Context, addr string, metrics prometheus.Gatherer, ready *Readiness, started func(string)) error {
	if addr == "" {
		<-ctx.Done()
		return nil
	}
	listener, err := listen(ctx, addr)
	if err != nil {
		return err
	}
	if started != nil {
		started(listener.Addr().String())
	}
	server := &http.Server{
		Handler:           handler(metrics, ready),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	err = errors.Join(server.Shutdown(stop), ignoreClosed(<-served))
	if err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// CheckFree says whether Serve could listen. It is called before anything is started that would have to be stopped again.
func CheckFree(ctx context.Context, addr string) error {
	if addr == "" {
		return nil
	}
	listener, err := listen(ctx, addr)
	if err != nil {
		return err
	}
	return listener.Close()
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on HTTP_ADDR %q: another program listens there; stop it, or set HTTP_ADDR to a free address: %w", addr, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on HTTP_ADDR %q: %w", addr, err)
	}
	return listener, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func handler(metrics prometheus.Gatherer, ready *Readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		asked, problems := ready.Ask(r.Context())
		if asked == 0 {
			problems["process"] = "nothing has started yet"
		}
		w.Header().Set("Content-Type", "application/json")
		if len(problems) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"ready": len(problems) == 0, "problems": problems, "notes": ready.Notes(),
		})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// Register adds a collector, or returns the equal one that another service of this process registered before.
func Register[C prometheus.Collector](registry prometheus.Registerer, collector C) C {
	err := registry.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		return already.ExistingCollector.(C)
	}
	if err != nil {
		panic(err) // two different metrics of one name: a defect of this program
	}
	return collector
}

func clean(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(secret.Text(v))
	case error:
		a.Value = slog.StringValue(secret.Text(v.Error()))
	case *url.URL:
		a.Value = slog.StringValue(secret.OfURL(v))
	case []string:
		cleaned := make([]string, len(v))
		for i, text := range v {
			cleaned[i] = secret.Text(text)
		}
		a.Value = slog.AnyValue(cleaned)
	}
	return a
}

// OfRun is a logger for a run: each of its lines carries connector, session and type.
func OfRun(log *slog.Logger, connectorID int32, session, connectorType string) *slog.Logger {
	return log.With("connector", connectorID, "session", session, "type", connectorType)
}

// Logger writes JSON or text at a level; the text form marks events. Its lines are cleaned of the secrets in URLs and
// connection strings: errors of libraries quote whole URLs.
func Logger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: clean}
	if format == "text" {
		return slog.New(eventHandler{slog.NewTextHandler(w, options)})
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
