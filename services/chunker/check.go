package chunker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/strictjson"
	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/chunker/files"
)

// CheckConfig returns, before anything runs, the problems that a sync would find in a connector's configuration without asking
// the source: every problem with its field, its value and the fix. It returns nil for the type of another service, too.
func CheckConfig(connectorType string, config []byte) error {
	switch connectorType {
	case "web":
		return strictjson.Check[crawl.Config](config)
	case "file":
		return strictjson.Check[files.Config](config)
	}
	return nil
}

// Reach is what a running chunker may read; see Config.
type Reach struct {
	FileRoots  []string `json:"file_roots"`
	AllowCIDRs []string `json:"allow_cidrs"`
	Private    []string `json:"private"`
}

// Reach returns what a chunker with this configuration may read.
func (c Config) Reach() Reach {
	return Reach{FileRoots: c.FileRoots, AllowCIDRs: c.AllowCIDRs, Private: c.private()}
}

// hashes are hashes of what connectors of a type are refused for, by type, in any order and spelling that mean the same.
func (c Config) hashes() (map[string]string, error) {
	prefixes, err := c.prefixes()
	if err != nil {
		return nil, err
	}
	var roots, ranges []string
	for _, root := range c.FileRoots {
		roots = append(roots, filepath.Clean(root))
	}
	for _, prefix := range prefixes {
		ranges = append(ranges, prefix.Masked().String())
	}
	return map[string]string{"file": hashOf(append(roots, "uploads "+c.Uploads.URL)), "web": hashOf(ranges)}, nil
}

func hashOf(words []string) string {
	slices.Sort(words)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(words), "\x00")))
	return hex.EncodeToString(sum[:])
}

// resolveTimeout bounds the resolution of a host name.
const resolveTimeout = 2 * time.Second

// CheckReach says whether a chunker with this reach would refuse the folder or the site of a configuration that CheckConfig
// accepts. It returns nil for the type of another service, and where the answer is unknown.
func CheckReach(ctx context.Context, connectorType string, config []byte, reach Reach) error {
	switch connectorType {
	case "web":
		var cfg crawl.Config
		if err := json.Unmarshal(config, &cfg); err != nil {
			return err
		}
		return checkSite(ctx, cfg.URL, reach)
	case "file":
		var cfg files.Config
		if err := json.Unmarshal(config, &cfg); err != nil {
			return err
		}
		roots := files.OpenRoots(reach.FileRoots, reach.Private...)
		defer func() { _ = roots.Close() }()
		return files.CheckReach(cfg, roots)
	}
	return nil
}

// checkSite refuses a site when none of its addresses is allowed. A crawl checks again at each connection.
func checkSite(ctx context.Context, address string, reach Reach) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	allowed, err := guard.Prefixes(allowSetting, reach.AllowCIDRs)
	if err != nil {
		return err
	}
	found, err := deadline.Get(ctx, "chunker.resolve", resolveTimeout, func(ctx context.Context) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	})
	if err != nil || len(found) == 0 {
		return ctx.Err() // the name may be known where the chunker runs, or tomorrow
	}
	check := guard.New(allowHint, allowed)
	var refused error
	for _, addr := range found {
		if refused = check.Check(addr); refused == nil {
			return nil
		}
	}
	return fmt.Errorf("url: %s: %w", u.Hostname(), refused)
}
