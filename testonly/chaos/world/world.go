// Package world is the system under fire: a real Postgres, a real nats-server, a stand-in for Qdrant, and the real
// programs. Each program reaches Postgres and NATS through fault proxies of its own.
package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/internal/devstack/loopback"
	"github.com/echomind/sync/internal/pgserver"
	"github.com/echomind/sync/testonly/faultproxy"
)

// Config says what to run and where.
type Config struct {
	// Bin is the folder with the programs, built with the tag chaos, and nats-server.
	Bin string
	// Dir is where everything is kept, the programs' logs too.
	Dir string
	// Programs are started in order.
	Programs []Program
	// Env is set for every one of them.
	Env []string
	// Qdrant says that there is one, and every program is told of it.
	Qdrant bool
	// Replica says that Postgres has one, for Failover.
	Replica bool
	// Cluster says that NATS is a cluster of three; each keeps every stream.
	Cluster bool
	// Users is a configuration of nats-server whose users the programs are, each under its own name; empty = no users.
	Users string
	// Clock says that Postgres's clock can be set, where this machine has what it takes.
	Clock bool
	Log   *slog.Logger
}

// Program is one process of the system.
type Program struct {
	Name string
	// Binary is its file in Bin.
	Binary string
	// Env is set besides what every program is told.
	Env []string
}

// World is the running system.
type World struct {
	Postgres  *pgserver.Server
	NATS      *NATS
	Qdrant    *Qdrant  // nil where there is none
	Replica   *Replica // nil where there is none
	Processes []*Process
	// Pool and Stream reach the servers without a proxy.
	Pool   *pgxpool.Pool
	Stream jetstream.JetStream
	Log    *slog.Logger
	// Failpoints is the folder in which fail points are armed.
	Failpoints string
	// Files and Site are what the file and web connectors read.
	Files string
	Site  *Site

	// clock is the file that says by how much Postgres's is off; empty where it cannot be set.
	clock    string
	clockSet atomic.Int64 // Unix nanoseconds; 0 = never
	users    *Users       // nil where everybody may do anything in NATS
	config   Config
	conn     *nats.Conn
	closing  sync.Mutex
	close    []func() error
	// run ends the programs' supervision.
	run  context.Context
	halt context.CancelFunc
}

// Open starts the servers and, once the schema is there, the programs. Close must be called also after an error.
func Open(ctx context.Context, cfg Config) (*World, error) {
	w := &World{config: cfg, Log: cfg.Log, Failpoints: filepath.Join(cfg.Dir, "failpoints"), Files: filepath.Join(cfg.Dir, "files")}
	w.run, w.halt = context.WithCancel(context.WithoutCancel(ctx))
	for _, dir := range []string{w.Failpoints, w.Files} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return w, fmt.Errorf("make a folder: %w", err)
		}
	}
	if err := w.openServers(ctx, cfg); err != nil {
		return w, err
	}
	site, err := startSite()
	if err != nil {
		return w, err
	}
	w.Site = site
	w.onClose(site.Close)
	for _, program := range cfg.Programs {
		p, err := w.process(cfg, program)
		if err != nil {
			return w, fmt.Errorf("prepare %s: %w", program.Name, err)
		}
		w.Processes = append(w.Processes, p)
	}
	return w, nil
}

// Force runs a statement that may write what only moves write: the harness makes time pass.
func (w *World) Force(ctx context.Context, sql string, args ...any) error {
	return pgx.BeginFunc(ctx, w.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('echomind.moving', 'on', true)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// StartPrograms starts what Open has prepared.
func (w *World) StartPrograms() {
	for _, p := range w.Processes {
		p.run(w.run)
	}
}

func (w *World) process(cfg Config, program Program) (*Process, error) {
	server, err := url.Parse(w.Postgres.URL())
	if err != nil {
		return nil, errors.New("the URL of Postgres cannot be read")
	}
	log, err := w.logFile(cfg, program.Name)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: program.Name, path: filepath.Join(cfg.Bin, program.Binary), log: log}
	if p.HTTP, err = freeAddr(); err != nil {
		return nil, err
	}
	if p.Postgres, err = faultproxy.Start(server.Host); err != nil {
		return nil, err
	}
	w.onClose(p.Postgres.Close)
	var brokers []string
	for _, s := range w.NATS.Servers {
		way, err := faultproxy.Start(s.Addr())
		if err != nil {
			return nil, err
		}
		w.onClose(way.Close)
		p.NATS, brokers = append(p.NATS, way), append(brokers, "nats://"+way.Addr())
	}
	database, err := p.Postgres.URL(w.Postgres.URL())
	if err != nil {
		return nil, err
	}
	p.env = append(os.Environ(), "DATABASE_URL="+database, "DATABASE_ROLE="+roles[program.Binary], "NATS_URL="+strings.Join(brokers, ","), "HTTP_ADDR="+p.HTTP,
		"ECHOMIND_FAILPOINTS="+w.Failpoints, "CHUNKER_FILE_ROOTS="+w.Files, "CHUNKER_ALLOW_CIDRS=127.0.0.0/8")
	if program.Binary == "api" {
		if p.API, err = freeAddr(); err != nil {
			return nil, err
		}
		p.env = append(p.env, "API_ADDR="+p.API)
	}
	if w.Qdrant != nil {
		p.env = append(p.env, w.Qdrant.told()...)
	}
	if w.users != nil {
		access, err := w.users.told(program.Binary)
		if err != nil {
			return nil, err
		}
		p.env = append(p.env, access...)
	}
	p.env = append(append(p.env, cfg.Env...), program.Env...)
	return p, nil
}

// roles are what each program may do in Postgres.
var roles = map[string]string{
	"scheduler": "echomind_scheduler", "semantic": "echomind_semantic",
	"chunker": "echomind_worker", "connector": "echomind_worker", "synthetic": "echomind_worker",
	"api": "echomind_api",
}

func freeAddr() (string, error) {
	port, err := loopback.Port(0)
	return loopback.Address(port), err
}

func (w *World) logFile(cfg Config, name string) (io.Writer, error) {
	file, err := os.OpenFile(filepath.Join(cfg.Dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open a log: %w", err)
	}
	w.onClose(file.Close)
	return file, nil
}

// Extra runs one more program until ctx ends, then stops it cleanly.
func (w *World) Extra(ctx context.Context, program Program) error {
	p, err := w.process(w.config, program)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", program.Name, err)
	}
	p.run(w.run)
	<-ctx.Done()
	p.Stop()
	if ends := p.Ends(); len(ends) > 0 {
		return errors.New(ends[0])
	}
	err = p.Postgres.Close()
	for _, way := range p.NATS {
		err = errors.Join(err, way.Close())
	}
	return err
}

// Named returns the processes whose name begins with one of the prefixes.
func (w *World) Named(prefixes ...string) []*Process {
	var found []*Process
	for _, p := range w.Processes {
		for _, prefix := range prefixes {
			if len(p.Name) >= len(prefix) && p.Name[:len(prefix)] == prefix {
				found = append(found, p)
				break
			}
		}
	}
	return found
}

// Heal takes back every fault of programs and connections, and disarms the fail points.
func (w *World) Heal() error {
	if w.Qdrant != nil {
		w.Qdrant.Thaw()
	}
	for _, s := range w.NATS.Servers {
		s.Thaw()
		if err := s.SetClock(0); err != nil {
			return err
		}
	}
	for _, p := range w.Processes {
		p.Heal()
	}
	armed, err := os.ReadDir(w.Failpoints)
	if err != nil {
		return fmt.Errorf("read the fail points: %w", err)
	}
	for _, f := range armed {
		if err := os.Remove(filepath.Join(w.Failpoints, f.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("disarm a fail point: %w", err)
		}
	}
	return nil
}

func (w *World) onClose(f func() error) {
	w.closing.Lock()
	defer w.closing.Unlock()
	w.close = append(w.close, f)
}

// StopPrograms stops them cleanly, all at once, and returns every end that nobody asked for.
func (w *World) StopPrograms() []string {
	w.halt()
	done := make(chan struct{})
	for _, p := range w.Processes {
		go func() { p.Stop(); done <- struct{}{} }()
	}
	for range w.Processes {
		<-done
	}
	var ends []string
	for _, p := range w.Processes {
		ends = append(ends, p.Ends()...)
	}
	return ends
}

// Close ends everything; programs that still run are killed.
func (w *World) Close() error {
	w.halt()
	for _, p := range w.Processes {
		p.mu.Lock()
		p.stopped, p.expected = true, true
		p.mu.Unlock()
		p.Kill()
		p.supervising.Wait()
	}
	var problems []error
	for i := len(w.close) - 1; i >= 0; i-- {
		problems = append(problems, w.close[i]())
	}
	return errors.Join(problems...)
}
