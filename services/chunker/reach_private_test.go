package chunker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
)

func TestSettingsThatMeanTheSameHaveOneHashAndOthersHaveAnother(t *testing.T) {
	of := func(cfg Config) map[string]string {
		hashes, err := cfg.hashes()
		require.NoError(t, err)
		return hashes
	}
	a := of(Config{FileRoots: []string{"/a", "/b/"}, AllowCIDRs: []string{"10.0.0.0/8", "127.0.0.1/32"}})
	require.Equal(t, a, of(Config{FileRoots: []string{"/b", "/a", "/a"}, AllowCIDRs: []string{"127.0.0.1/32", "10.1.2.3/8"}}))
	roots := of(Config{FileRoots: []string{"/a"}, AllowCIDRs: []string{"10.0.0.0/8", "127.0.0.1/32"}})
	require.NotEqual(t, a["file"], roots["file"])
	require.Equal(t, a["web"], roots["web"], "sites are not tried again for another folder")
	ranges := of(Config{FileRoots: []string{"/a"}, AllowCIDRs: []string{"10.0.0.0/8"}})
	require.NotEqual(t, roots["web"], ranges["web"])
	uploads := of(Config{FileRoots: []string{"/a"}, Uploads: config.Uploads{URL: "file:///uploads"}})
	require.NotEqual(t, roots["file"], uploads["file"])
}
