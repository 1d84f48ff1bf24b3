package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/config"
)

// either asks the database, or the server that commands work on: what they then show is the same.
func either[T any](
	ctx context.Context, f *finder, database func(*pgxpool.Pool) (T, error), through func(*remote) (T, error),
) (found T, err error) {
	return eitherOf(f, func() (found T, err error) {
		err = f.withPool(ctx, func(pool *pgxpool.Pool) (err error) {
			found, err = database(pool)
			return err
		})
		return found, err
	}, through)
}

// eitherOf is either, of what needs more than a database.
func eitherOf[T any](f *finder, here func() (T, error), through func(*remote) (T, error)) (found T, err error) {
	s, is, err := f.server()
	if err != nil {
		return found, err
	}
	if !is {
		return here()
	}
	return throughServer(f, s, through)
}

// throughServer has a server do it.
func throughServer[T any](f *finder, s server, through func(*remote) (T, error)) (found T, err error) {
	r, err := f.remote(s)
	if err != nil {
		return found, err
	}
	if found, err = through(r); err != nil {
		return found, r.said(err)
	}
	return found, nil
}

// server is the one that commands work on, if they do: DATABASE_URL goes before it. ECHOMIND_URL names one for every folder; a login is for folders
// that have no stack of their own.
func (f *finder) server() (s server, is bool, err error) {
	if !f.mayAskServer {
		return s, false, nil
	}
	lookup, err := f.fromEnvironment()
	if err != nil || lookup.DatabaseURL != "" {
		return s, false, err
	}
	named := os.Getenv(variableURL) != "" || os.Getenv(variableToken) != ""
	if !named && hasStack(lookup) {
		return s, false, nil
	}
	s, err = theServer()
	if errors.Is(err, errNotLoggedIn) {
		return s, false, nil
	}
	return s, err == nil, err
}

// hasStack says whether somebody has named a stack, or this folder has one, though it may not run.
func hasStack(lookup config.Lookup) bool {
	if lookup.DataDir != config.DefaultDataDir {
		return true
	}
	_, err := os.Stat(lookup.DataDir)
	return !errors.Is(err, fs.ErrNotExist)
}

// noServer is the error of a command that works on a database alone, where a server is what commands work on; nil elsewhere.
func (f *finder) noServer() error {
	s, is, err := f.server()
	if err != nil || !is {
		return err
	}
	return f.notYet(s, "")
}

// alone are commands that no server does, by how they begin: why, and what to set in its place.
var alone = []struct{ command, why, set string }{
	{"echomind migrate", "a schema is changed on its database", "DATABASE_URL"},
	{"echomind secrets", "the key that secrets are encrypted with leaves no server", "DATABASE_URL, and SECRETS_KEY_FILE or SECRETS_KEY"},
	{"echomind streams", "no server makes, changes or measures streams; `echomind status` shows what they hold", "NATS_URL"},
	{"echomind conditions", "conditions are SQL, which is written and tried on the database", "DATABASE_URL"},
	{"echomind import", "what was imported before is compared with what is there, its secrets too, under a key that leaves no server", "DATABASE_URL, and SECRETS_KEY_FILE or SECRETS_KEY where there are secrets"},
}

// notYet is the error of a command, or of a flag of it, that no server can be asked for.
func (f *finder) notYet(s server, flag string) error {
	what := f.command
	if flag != "" {
		what += " " + flag
	}
	for _, a := range alone {
		if f.command == a.command || strings.HasPrefix(f.command, a.command+" ") {
			return fmt.Errorf("%s does not work through a server: %s; set %s (the server is %s, of %s)", what, a.why, a.set, printable(s.URL), printable(s.from))
		}
	}
	return fmt.Errorf("%s does not work through a server yet: set DATABASE_URL (the server is %s, of %s)", what, printable(s.URL), printable(s.from))
}

// tellServer says once which server a login has commands work on: it was named another time, maybe in another folder.
func (f *finder) tellServer(s server) {
	if s.from == variableURL || f.say == nil {
		return
	}
	f.once.Do(func() { _, _ = fmt.Fprintf(f.say, "of the server %s\n", printable(s.URL)) })
}
