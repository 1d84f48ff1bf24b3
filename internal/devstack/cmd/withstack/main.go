// Withstack runs a command beside the stack that `echomind run` has started, and passes it the URLs of Postgres and NATS in
// DATABASE_URL and NATS_URL:
//
//	withstack -data-dir .echomind -- command args...
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
)

func main() {
	dir := flag.String("data-dir", config.DefaultDataDir, "the data folder of the stack")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: withstack [-data-dir FOLDER] -- command args...")
		os.Exit(2)
	}
	if err := run(*dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, command []string) error {
	stack, err := devstack.Discover(dir)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it stops in order, as on Ctrl-C
	cmd.Env = append(os.Environ(), "DATABASE_URL="+stack.DatabaseURL, "NATS_URL="+stack.NATSURL, "HTTP_ADDR=127.0.0.1:0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}
