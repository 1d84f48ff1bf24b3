package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/broker"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/internal/postgres"
)

const (
	queryTimeout = 10 * time.Second
	// application is what the console calls itself to Postgres, before a slash and who types: the audit takes it from there. Services begin with echomind-.
	application = "echomind"
	maxConns    = 2
)

// finder finds the servers of the running stack.
type finder struct {
	fromEnvironment func() (config.Lookup, error)
	// registry has word of the stacks of this user; empty = there is none.
	registry string
	// say takes what a person should know.
	say  io.Writer
	once sync.Once
	// mayAskServer: commands work on the server that the environment or a login names, if one does.
	mayAskServer bool
	// command is the command that runs.
	command string
}

// lookup is what the environment says. Where it names no servers, and this folder has no data folder, it is the data folder of the
// only stack that runs, and a person is told so. A folder with one has a stack of its own, though it may not run.
func (f *finder) lookup() (config.Lookup, error) {
	lookup, err := f.fromEnvironment()
	if err != nil || f.registry == "" || lookup.DatabaseURL != "" || lookup.DataDir != config.DefaultDataDir {
		return lookup, err
	}
	if _, err := os.Stat(lookup.DataDir); !errors.Is(err, os.ErrNotExist) {
		return lookup, nil
	}
	running, err := devstack.Registered(f.registry)
	switch {
	case err != nil || len(running) == 0:
		return lookup, err
	case len(running) > 1:
		return lookup, fmt.Errorf("several stacks run, and this folder has no data folder: name one of %s with ECHOMIND_DATA_DIR",
			strings.Join(running, ", "))
	}
	lookup.DataDir = running[0]
	f.once.Do(func() { _, _ = fmt.Fprintf(f.say, "of the stack in %s\n", printable(lookup.DataDir)) })
	return lookup, nil
}

// whereabouts is where the servers are.
type whereabouts struct {
	databaseURL, natsURL, httpAddr string
	databaseRole                   string
	// dataDir is the folder of the stack in which a server was found.
	dataDir    string
	natsAccess config.NATSAccess
	// databaseFound and natsFound: from the data folder, and not from the environment.
	databaseFound, natsFound bool
	// reach is what the sources of the stack in the data folder may read; empty where that is not known.
	reach json.RawMessage
}

// find looks up each server on its own: in the environment, else in the data folder. notRunning says why a server
// that is not there was not found.
func (f *finder) find() (w whereabouts, notRunning, err error) {
	if err := f.noServer(); err != nil {
		return w, nil, err
	}
	lookup, err := f.lookup()
	if err != nil {
		return w, nil, err
	}
	w.databaseURL, w.databaseRole = lookup.DatabaseURL, lookup.DatabaseRole
	w.natsURL, w.natsAccess = lookup.NATSURL, lookup.NATSAccess
	if w.databaseURL != "" && w.natsURL != "" {
		return w, nil, nil
	}
	info, err := devstack.Discover(lookup.DataDir)
	if errors.Is(err, devstack.ErrNotRunning) {
		return w, err, nil
	}
	if err != nil {
		return w, nil, err
	}
	w.httpAddr, w.dataDir = info.HTTPAddr, lookup.DataDir
	if w.databaseURL == "" {
		w.databaseURL, w.databaseFound, w.databaseRole, w.reach = info.DatabaseURL, true, "", info.Reach
	}
	if w.natsURL == "" {
		w.natsURL, w.natsFound, w.natsAccess = info.NATSURL, true, config.NATSAccess{}
	}
	return w, nil, nil
}

// database is where Postgres is.
func (f *finder) database() (string, error) {
	w, notRunning, err := f.find()
	if err == nil && w.databaseURL == "" {
		err = notRunning
	}
	return w.databaseURL, err
}

// withPool opens Postgres, checks that the schema is this program's, and closes it after work.
func (f *finder) withPool(ctx context.Context, work func(*pgxpool.Pool) error) error {
	where, notRunning, err := f.find()
	if err != nil {
		return err
	}
	if where.databaseURL == "" {
		return notRunning
	}
	return where.withPool(ctx, work)
}

func (w whereabouts) withPool(ctx context.Context, work func(*pgxpool.Pool) error) error {
	pool, err := postgres.Open(ctx, w.databaseURL, application+"/"+*person(), maxConns, postgres.As(w.databaseRole))
	if err != nil {
		return err
	}
	defer pool.Close()
	err = deadline.Do(ctx, "console.schema", queryTimeout, func(ctx context.Context) error { return db.Check(ctx, pool) })
	if err == nil {
		err = work(pool)
	}
	return barred(err)
}

// ask makes one call to Postgres under a deadline with a name.
func ask[T any](
	ctx context.Context, pool *pgxpool.Pool, name string, call func(context.Context, *dbgen.Queries) (T, error),
) (T, error) {
	out, err := deadline.Get(ctx, "console."+name, queryTimeout,
		func(ctx context.Context) (T, error) { return call(ctx, dbgen.New(pool)) })
	return out, err
}

// askBounded is ask for a look at the ledger, which may be large: the server ends it too, and does not read all of a week before the
// first rows.
func askBounded[T any](
	ctx context.Context, pool *pgxpool.Pool, name string, call func(context.Context, *dbgen.Queries) (T, error),
) (out T, _ error) {
	bounds := postgres.Bounds{Statement: queryTimeout, ByIndex: true}
	err := deadline.Do(ctx, "console."+name, queryTimeout, func(ctx context.Context) error {
		return postgres.TxBounded(ctx, pool, bounds, func(tx pgx.Tx) (err error) {
			out, err = call(ctx, dbgen.New(tx))
			return err
		})
	})
	return out, err
}

// stackLook is the time between two looks whether the stack still runs.
const stackLook = time.Second

// whileRunning ends the returned context, with that as its cause, when the stack that the database was found in stops.
func (w whereabouts) whileRunning(ctx context.Context, id int32) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if !w.databaseFound {
		return ctx, func() { cancel(nil) }
	}
	ticker := time.NewTicker(stackLook)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if _, err := devstack.Discover(w.dataDir); errors.Is(err, devstack.ErrNotRunning) {
				cancel(fmt.Errorf("the stack stopped before there was a verdict; the sync goes on when `echomind run` runs again, "+
					"and `echomind why %d` tells where it stands then", id))
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-watched
	}
}

// broker connects to NATS; the caller closes what is not nil.
func (w whereabouts) broker(notRunning error) (*broker.Broker, error) {
	if w.natsURL == "" {
		return nil, fmt.Errorf("NATS is not known: %w", notRunning)
	}
	return broker.Open(w.natsURL, w.natsAccess)
}
