// Withpostgres runs a command beside a throwaway, migrated Postgres and passes its URL in an environment variable:
//
//	withpostgres -env DATABASE_URL -- command args...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/pgserver"
)

func main() {
	variable := flag.String("env", "DATABASE_URL", "the variable that carries the URL")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: withpostgres [-env NAME] -- command args...")
		os.Exit(2)
	}
	if err := run(*variable, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(variable string, command []string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "echomind-tool-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	server, err := pgserver.Start(ctx, pgserver.Config{Dir: filepath.Join(dir, "postgres"), Volatile: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx)) }()
	if err := db.Up(ctx, server.URL()); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+server.URL())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
