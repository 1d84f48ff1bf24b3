package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api"
)

const (
	// localAdmin is whose the token of `echomind run` is: the user of its examples.
	localAdmin   = 1
	tokenTimeout = 10 * time.Second
)

// freeAPI says whether the API could be served: before anything is started that would have to be stopped again. At the default address
// a second stack takes another port.
func freeAPI(ctx context.Context, cfg *Config) error {
	if cfg.API.Addr == "" {
		return nil
	}
	listener, err := api.Listen(ctx, cfg.API.Addr)
	if errors.Is(err, syscall.EADDRINUSE) && cfg.API.Addr == config.DefaultAPIAddr {
		cfg.API.Addr = "127.0.0.1:0"
		return nil
	}
	if err != nil {
		return err
	}
	return listener.Close()
}

// ownToken makes a token of a local administrator in the data folder of the embedded Postgres, unless there is one that counts. Only
// whoever starts the stack may read it.
func ownToken(ctx context.Context, cfg Config, info devstack.Info) (file string, err error) {
	if cfg.API.Addr == "" || cfg.Devstack.DatabaseURL != "" {
		return "", nil
	}
	file, err = filepath.Abs(filepath.Join(cfg.Devstack.DataDir, "admin.token"))
	if err != nil {
		return "", err
	}
	return file, deadline.Do(ctx, "run.token", tokenTimeout, func(ctx context.Context) error {
		conn, err := postgres.Connect(ctx, info.DatabaseURL, "echomind/run")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if counts, err := tokenCounts(ctx, conn, strings.TrimSpace(string(text))); counts || err != nil {
			return err
		}
		secret := identity.NewSecret()
		made, err := dbgen.New(conn).CreateToken(ctx, dbgen.CreateTokenParams{
			UserID: localAdmin, Name: "local administrator", Role: string(identity.Superadmin), Scopes: []string{"read", "operate", "write", "admin"},
			SecretSha256: secret.Hash(), CreatedBy: "echomind run",
		})
		if err != nil {
			return fmt.Errorf("make the token of the local administrator: %w", err)
		}
		return replaceFile(file, identity.Token(made.ID, secret)+"\n")
	})
}

// tokenCounts says whether somebody is signed in with it.
func tokenCounts(ctx context.Context, conn *pgx.Conn, token string) (counts bool, err error) {
	id, secret, err := identity.ParseToken(token)
	if err != nil {
		return false, nil //nolint:nilerr // a file of something else is replaced
	}
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api.authenticate($1, $2))`, id, secret.Hash()).Scan(&counts)
	return counts, err
}

// replaceFile writes a file that only its owner may read, aside first, so that nobody reads half of it.
func replaceFile(file, text string) error {
	aside, err := os.CreateTemp(filepath.Dir(file), ".token-*") // its owner's alone
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(aside.Name()) }()
	_, err = aside.WriteString(text)
	if err = errors.Join(err, aside.Sync(), aside.Close()); err != nil {
		return err
	}
	return os.Rename(aside.Name(), file)
}
