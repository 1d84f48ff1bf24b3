package stack

import (
	"context"
	"crypto/sha256"
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
	// linkMinutes is for how long the link that is printed signs its first visitor in.
	linkMinutes = 15
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
// the user who starts the stack may read it. code is the code of a link that signs a browser in with it, once.
func ownToken(ctx context.Context, cfg Config, info devstack.Info) (file, code string, err error) {
	if cfg.API.Addr == "" || cfg.Devstack.DatabaseURL != "" {
		return "", "", nil
	}
	file, err = filepath.Abs(filepath.Join(cfg.Devstack.DataDir, "admin.token"))
	if err != nil {
		return "", "", err
	}
	code = string(identity.NewSecret())
	return file, code, deadline.Do(ctx, "run.token", tokenTimeout, func(ctx context.Context) error {
		conn, err := postgres.Connect(ctx, info.DatabaseURL, "echomind/run")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		q, sum := dbgen.New(conn), sha256.Sum256([]byte(code))
		link := func(token int32) error {
			return q.CreateLink(ctx, dbgen.CreateLinkParams{CodeSha256: sum[:], TokenID: token, Minutes: linkMinutes})
		}
		id, counts, err := tokenCounts(ctx, conn, strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		if counts {
			return link(id)
		}
		secret := identity.NewSecret()
		made, err := q.CreateToken(ctx, dbgen.CreateTokenParams{
			UserID: localAdmin, Name: "local administrator", Role: string(identity.Superadmin), Scopes: []string{"read", "operate", "write", "admin"},
			SecretSha256: secret.Hash(), CreatedBy: "echomind run",
		})
		if err != nil {
			return fmt.Errorf("make the token of the local administrator: %w", err)
		}
		return errors.Join(replaceFile(file, identity.Token(made.ID, secret)+"\n"), link(made.ID))
	})
}

// tokenCounts says whether somebody is signed in with it.
func tokenCounts(ctx context.Context, conn *pgx.Conn, token string) (id int32, counts bool, err error) {
	id, secret, err := identity.ParseToken(token)
	if err != nil {
		return 0, false, nil //nolint:nilerr // a file of something else is replaced
	}
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api.authenticate($1, $2))`, id, secret.Hash()).Scan(&counts)
	return id, counts, err
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
