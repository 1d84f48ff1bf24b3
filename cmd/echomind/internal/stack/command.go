package stack

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/devstack"
)

// Command is `echomind run`.
func Command() *cobra.Command {
	var allowCIDRs, fileRoots []string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the whole pipeline on this machine until Ctrl-C",
		Long: `Run the whole pipeline in one process until Ctrl-C: nats-server, a private PostgreSQL cluster, the migrations, and
all services. Data lives in ./data ($ECHOMIND_DATA_DIR) and survives restarts. Where DATABASE_URL or NATS_URL is set,
that server is used instead of an embedded one.

File connectors read nothing but what --file-roots names; the data folder, key files and .env are never read.`,
		Example: "  echomind run --file-roots /absolute/folder\n  echomind run --allow-cidrs 127.0.0.0/8",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			return errors.Join(checkRanges(allowCIDRs), checkFolders(fileRoots))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := LoadConfig(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if len(allowCIDRs) > 0 {
				cfg.Chunker.AllowCIDRs = allowCIDRs
			}
			if len(fileRoots) > 0 {
				cfg.Chunker.FileRoots = fileRoots
			}
			cfg.Started = func(info devstack.Info, servers *devstack.Stack, apiAddr, tokenFile, code string) {
				announceStart(cmd.OutOrStdout(), cfg, info, servers, signIn(apiAddr, tokenFile), pageAt(apiAddr, code))
			}
			return Run(cmd.Context(), cfg)
		},
	}
	cmd.Flags().StringSliceVar(&allowCIDRs, "allow-cidrs", nil,
		"loopback or private ranges that web connectors may reach (CHUNKER_ALLOW_CIDRS)")
	cmd.Flags().StringSliceVar(&fileRoots, "file-roots", nil,
		"folders that file connectors may read (CHUNKER_FILE_ROOTS; default: none)")
	return cmd
}

func checkRanges(all []string) error {
	for _, text := range all {
		if _, err := netip.ParsePrefix(text); err != nil {
			return fmt.Errorf("--allow-cidrs %q: must be ranges such as 127.0.0.0/8,10.1.0.0/16", text)
		}
	}
	return nil
}

func checkFolders(all []string) error {
	for _, folder := range all {
		if !filepath.IsAbs(folder) {
			return fmt.Errorf("--file-roots %q: must be absolute paths", folder)
		}
	}
	return nil
}

func announceStart(out io.Writer, cfg Config, info devstack.Info, servers *devstack.Stack, management, page string) {
	postgres, nats := "yours, from DATABASE_URL", "yours, from NATS_URL"
	if cfg.Devstack.DatabaseURL == "" {
		postgres = shown(info.DatabaseURL) + "\n             (embedded; data in " + servers.PostgresDir() + "; the password stands in stack.json)"
	}
	if cfg.Devstack.NATSURL == "" {
		nats = shown(info.NATSURL) + "  (embedded)"
	}
	folder, err := filepath.Abs(cfg.Devstack.DataDir)
	if err != nil {
		folder = cfg.Devstack.DataDir
	}
	served := "http://" + info.HTTPAddr
	if info.HTTPAddr == "" {
		served = "nowhere"
	}
	command := os.Args[0]
	if elsewhere := os.Getenv("ECHOMIND_DATA_DIR"); elsewhere != "" {
		command = "ECHOMIND_DATA_DIR='" + folder + "' " + command
	}
	read, next := strings.Join(cfg.Chunker.FileRoots, ", "), fmt.Sprintf("%s connectors add --name docs --type file --user 1 "+
		"--config '{\"url\":\"file://%s\"}' --refresh 60m", command, append(cfg.Chunker.FileRoots, "")[0])
	if read == "" {
		read = "no folder; start it with --file-roots /absolute/folder for connectors of type file"
		next = command + " connectors add --name site --type web --user 1 --config '{\"url\":\"https://…\"}' --refresh 60m"
	}
	scheduler := "scheduler"
	if !cfg.Scheduler.Enabled {
		scheduler = "scheduler (switched off by SCHEDULER_ENABLED=false: nothing is dispatched)"
	}
	_, _ = fmt.Fprintf(out, `EchoMind Sync is running.
  data       %s
  postgres   %s
  nats       %s
  page       %s
  http       %s  (/healthz /readyz /metrics)
  api        %s
  services   %s, chunker (web, file), connector (google_drive, onedrive, teams), semantic
  may read   %s

Next, in a second terminal:
  %s

Ctrl-C stops it.
`, folder, postgres, nats, page, served, management, scheduler, read, next)
}

// pageAt is where people look at the system. The link is good once, and not for long, so that a terminal that is recorded gives nothing away later.
func pageAt(apiAddr, code string) string {
	switch {
	case apiAddr == "":
		return "nowhere"
	case code == "":
		return "http://" + apiAddr + "/  (sign in with a token: echomind tokens create --help)"
	}
	return fmt.Sprintf("http://%s/sign-in?code=%s\n             (signs its first visitor in, within %d minutes; later: http://%[1]s/ and the token below)", apiAddr, code, linkMinutes)
}

// signIn says where the API is, and how to sign in. The token itself is not printed: terminals are recorded.
func signIn(apiAddr, tokenFile string) string {
	switch {
	case apiAddr == "":
		return "nowhere"
	case tokenFile == "":
		return "http://" + apiAddr + "/api/v1  (sign in with a token: echomind tokens create --help)"
	}
	return fmt.Sprintf("http://%[1]s/api/v1\n             (a local administrator's token is in %[2]s:\n"+
		"             curl -H \"Authorization: Bearer $(cat '%[2]s')\" http://%[1]s/api/v1/me)", apiAddr, tokenFile)
}

// shown is a server's URL without its password: terminals are recorded, and what a service prints goes to a journal.
func shown(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return "unknown"
	}
	return u.Redacted()
}
