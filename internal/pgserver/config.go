package pgserver

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"

	"github.com/echomind/sync/internal/devstack/loopback"
)

// superuser owns the cluster and its databases.
const superuser = "echomind"

// Config is the configuration of a server.
type Config struct {
	// Dir is the server's folder: its cluster, password, port and log. It is created. Required.
	Dir string
	// Volatile never waits for the disk; for tests only. A crash of the machine may destroy the cluster; a crash of the server
	// loses nothing. Default: Postgres's own settings, under which a commit survives both.
	Volatile bool
	// Port is the TCP port on 127.0.0.1; 0 = the port of the last start where it is free, else any.
	Port int
	// MaxConnections bounds the clients; default 100.
	MaxConnections int
	// Database is created where it is missing, and named by URL; default "echomind".
	Database string
	// BinDir is the folder of initdb and postgres; default: the folder that Find returns.
	BinDir string
	// Log gets the server's events; default: none. The server's own log is the file postgres.log in Dir.
	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	c.MaxConnections = cmp.Or(c.MaxConnections, 100)
	c.Database = cmp.Or(c.Database, "echomind")
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("resolve the server's folder: %w", err)
	}
	c.Dir = dir
	if c.BinDir == "" {
		if c.BinDir, err = Find(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// arguments are the server's command line.
func (c Config) arguments(cluster string, port int) []string {
	settings := [][2]string{
		{"listen_addresses", loopback.Host},
		{"port", strconv.Itoa(port)},
		// Every user of the machine could reach a socket in /tmp, or take its name.
		{"unix_socket_directories", ""},
		{"password_encryption", "scram-sha-256"},
		{"max_connections", strconv.Itoa(c.MaxConnections)},
		{"shared_buffers", "128MB"},
		// JIT compilation costs more than running the short queries of a queue.
		{"jit", "off"},
		{"timezone", "UTC"},
		{"log_timezone", "UTC"},
		{"log_destination", "stderr"},
		{"logging_collector", "off"},
		{"log_line_prefix", "%m [%p] "},
	}
	if c.Volatile {
		settings = append(settings,
			// synchronous_commit stays on: without fsync it costs next to nothing, and after a test has killed the server every
			// commit must be there.
			[2]string{"fsync", "off"}, [2]string{"full_page_writes", "off"},
			[2]string{"wal_level", "minimal"}, [2]string{"max_wal_senders", "0"},
		)
	}
	arguments := []string{"-D", cluster}
	for _, s := range settings {
		arguments = append(arguments, "-c", s[0]+"="+s[1])
	}
	return arguments
}
