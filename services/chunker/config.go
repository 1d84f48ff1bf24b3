package chunker

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/sdk/chunk"
	"github.com/echomind/sync/sdk/worker"
)

// Config is the configuration of the chunker.
type Config struct {
	config.Common
	config.Reading
	// Worker tunes both subscriptions; each has WORKER_SLOTS slots.
	Worker worker.Config
	// FileRoots are the folders, absolute paths separated by commas, in which file connectors may read. If empty, file
	// connectors are refused.
	FileRoots []string `env:"CHUNKER_FILE_ROOTS"`
	// Private are further folders and files that no connector reads, wherever they are, such as the data folder and keys of
	// `echomind run`. Files that this configuration names are private anyway.
	Private []string
	// Uploads is where the files are that people upload.
	Uploads config.Uploads
	// AllowCIDRs are loopback, private or link-local ranges, separated by commas, that web connectors may reach. Public
	// addresses are always allowed.
	AllowCIDRs []string `env:"CHUNKER_ALLOW_CIDRS"`
	// MaxTokens is the size of a chunk, in estimated tokens.
	MaxTokens int `env:"CHUNKER_MAX_TOKENS" envDefault:"400"`
	// OverlapPercent is the part of a chunk that repeats the end of the chunk before it, in percent; -1 = none.
	OverlapPercent int `env:"CHUNKER_OVERLAP_PERCENT" envDefault:"15"`
}

// Shared is the configuration that all services have.
func (c Config) Shared() config.Common { return c.Common }

// Validate returns every problem at once.
func (c Config) Validate() error {
	_, err := c.prefixes()
	problems := []error{c.Common.Validate(), c.Reading.Validate(), c.Worker.Validate(), c.chunks().Validate(), c.Uploads.Validate(), err}
	for _, root := range c.FileRoots {
		if !filepath.IsAbs(root) {
			problems = append(problems, fmt.Errorf("CHUNKER_FILE_ROOTS: %q is not an absolute path", root))
		}
	}
	return errors.Join(problems...)
}

func (c Config) chunks() chunk.Options {
	return chunk.Options{MaxTokens: c.MaxTokens, OverlapPercent: c.OverlapPercent}
}

// private are the files with this service's own secrets.
func (c Config) private() []string {
	own := append([]string(nil), c.Private...)
	for _, file := range []string{c.NATSCredsFile, c.NATSNKeyFile, c.NATSCertFile, c.NATSKeyFile} {
		if file != "" {
			own = append(own, file)
		}
	}
	for _, server := range []string{c.DatabaseURL, c.DirectURL()} {
		if u, err := url.Parse(server); err == nil {
			for _, name := range []string{"sslkey", "sslcert", "passfile", "servicefile"} {
				if file := u.Query().Get(name); file != "" {
					own = append(own, file)
				}
			}
		}
	}
	if folder := c.Uploads.Folder(); folder != "" { // everybody's files
		own = append(own, folder)
	}
	return append(own, config.PostgresFiles()...)
}

const (
	allowSetting = "CHUNKER_ALLOW_CIDRS"
	// allowHint names the setting for people who run the whole stack on their machine.
	allowHint = allowSetting + " (--allow-cidrs of `echomind run`)"
)

func (c Config) prefixes() ([]netip.Prefix, error) { return guard.Prefixes(allowSetting, c.AllowCIDRs) }
