package world

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/devstack/loopback"
	"github.com/echomind/sync/internal/pgserver"
)

// lostCommits is how long the primary commits what its replica never hears of.
const lostCommits = 2 * time.Second

// Replica is a physical one of the cluster, which it follows asynchronously.
type Replica struct {
	server
	dir     string
	url     *url.URL
	port    int
	primary string
}

// openReplica copies the cluster and follows it.
func (w *World) openReplica(ctx context.Context, cfg Config) error {
	bin, err := pgserver.Find()
	if err != nil {
		return err
	}
	// Beside the server itself, wherever a link to it may be.
	if itself, err := filepath.EvalSymlinks(filepath.Join(bin, "postgres")); err == nil {
		bin = filepath.Dir(itself)
	}
	owner, err := ownerOf(w.Postgres.Dir())
	if err != nil {
		return err
	}
	// Beside the cluster, whose owner can reach it.
	dir := filepath.Join(filepath.Dir(w.Postgres.Dir()), "replica")
	err = os.Mkdir(dir, 0o700)
	if err == nil && owner != nil {
		err = os.Chown(dir, int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		return fmt.Errorf("make the replica's folder: %w", err)
	}
	log, err := w.logFile(cfg, "replica")
	if err != nil {
		return err
	}
	backup := exec.CommandContext(ctx, filepath.Join(bin, "pg_basebackup"), "-D", dir, "-X", "stream", "-R", "-c", "fast", "-d", w.Postgres.URL())
	backup.Dir, backup.Stdout, backup.Stderr = dir, log, log
	backup.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if err := backup.Run(); err != nil {
		return fmt.Errorf("copy the cluster: %w", err)
	}
	r := &Replica{dir: dir, server: server{name: "replica", path: filepath.Join(bin, "postgres"), log: log, dir: dir, owner: owner}}
	if r.url, err = url.Parse(w.Postgres.URL()); err != nil {
		return errors.New("the URL of Postgres cannot be read")
	}
	r.primary = r.url.Port()
	if r.port, err = loopback.Port(0); err != nil {
		return err
	}
	if err := r.run(ctx, fmt.Sprint(r.port)); err != nil {
		return err
	}
	w.Replica = r
	w.onClose(r.stop)
	return nil
}

// ownerOf is whose the cluster is; nil where it is our own.
func ownerOf(path string) (owner *syscall.Credential, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("ask whose the cluster is: %w", err)
	}
	if stat, known := info.Sys().(*syscall.Stat_t); known && os.Geteuid() == 0 {
		owner = &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}
	}
	return owner, nil
}

// run starts it on a port and returns when it answers.
func (r *Replica) run(ctx context.Context, port string) error {
	r.url.Host = loopback.Host + ":" + port
	r.args = []string{
		"-D", r.dir, "-c", "listen_addresses=" + loopback.Host, "-c", "port=" + port, "-c", "unix_socket_directories=",
		"-c", "logging_collector=off", "-c", "timezone=UTC", "-c", fmt.Sprint("max_connections=", connections), // no fewer than the primary's
	}
	return r.start(ctx, func(ctx context.Context) error { return r.ask(ctx, nil, `SELECT`) })
}

// ask runs a statement on the replica.
func (r *Replica) ask(ctx context.Context, into any, sql string) (err error) {
	conn, err := pgx.Connect(ctx, r.url.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if into == nil {
		_, err = conn.Exec(ctx, sql)
		return err
	}
	return conn.QueryRow(ctx, sql).Scan(into)
}

func (r *Replica) stop() error {
	<-r.signal(syscall.SIGINT)
	return nil
}

// Failover lets the primary commit for a while what the replica does not hear of, ends the primary as a crash does, and puts
// the replica in its place. It returns how many bytes of the log are lost.
func (w *World) Failover(ctx context.Context) (lost int64, err error) {
	r := w.Replica
	for _, sql := range []string{`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`} {
		if err := r.ask(ctx, nil, sql); err != nil {
			return 0, fmt.Errorf("cut the replica off: %w", err)
		}
	}
	time.Sleep(lostCommits)
	var at, heard string
	if err := w.Pool.QueryRow(ctx, `SELECT pg_current_wal_lsn()::text`).Scan(&at); err != nil {
		return 0, fmt.Errorf("ask how far the primary has come: %w", err)
	}
	if err := w.Postgres.Kill(); err != nil {
		return 0, err
	}
	if err := r.ask(ctx, &heard, `SELECT pg_last_wal_receive_lsn()::text`); err != nil {
		return 0, fmt.Errorf("ask how far the replica has come: %w", err)
	}
	if err := r.ask(ctx, nil, `SELECT pg_promote(true, 30)`); err != nil {
		return 0, fmt.Errorf("promote the replica: %w", err)
	}
	if err := r.ask(ctx, &lost, fmt.Sprintf(`SELECT pg_wal_lsn_diff('%s', '%s')::bigint`, at, heard)); err != nil {
		return 0, fmt.Errorf("ask what is lost: %w", err)
	}
	if err := r.stop(); err != nil {
		return 0, err
	}
	return lost, r.run(ctx, r.primary)
}
