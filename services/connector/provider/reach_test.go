package provider_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/services/connector/provider"
)

func reach(t *testing.T, allow string, proxy func(*http.Request) (*url.URL, error), endpoints ...string) *provider.Reach {
	t.Helper()
	var ranges []netip.Prefix
	if allow != "" {
		ranges = []netip.Prefix{netip.MustParsePrefix(allow)}
	}
	r, err := provider.NewReach(guard.New("CONNECTOR_ALLOW_CIDRS", ranges), proxy, endpoints...)
	require.NoError(t, err)
	t.Cleanup(r.CloseIdleConnections)
	return r
}

func TestADownloadDoesNotReachWhatIsNextToTheService(t *testing.T) {
	t.Parallel()
	private := serve(t, ok)
	api := serve(t, answer{status: 302, header: map[string]string{"Location": private.URL + "/latest/meta-data?token=x"}})
	for name, c := range map[string]struct {
		allow, url string
		reached    bool
	}{
		"by a redirect of the API":  {"", api.URL, false},
		"by a download URL":         {"", private.URL, false},
		"where the operator allows": {"127.0.0.0/8", private.URL, true},
	} {
		before := len(private.requests())
		client, err := provider.NewClient(provider.Options{
			Dialect: provider.Microsoft, Clock: newClock(), Base: reach(t, c.allow, nil, api.URL),
		})
		require.NoError(t, err)
		_, _, err = get(t, client, c.url)
		if c.reached {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, guard.ErrBlocked, name)
		require.ErrorContains(t, err, "add 127.0.0.1/32 to CONNECTOR_ALLOW_CIDRS", name)
		require.Len(t, private.requests(), before, name)
	}
}

func TestAPrivateAddressIsNotAskedForThroughAProxyEither(t *testing.T) {
	t.Parallel()
	proxy := serve(t, ok)
	at, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	r := reach(t, "", http.ProxyURL(at), "http://api.example")
	client := &http.Client{Transport: r}
	for _, private := range []string{
		"169.254.169.254", "169.254.169.254.", "127.1", "127.1.", "2130706433", "0x7f.0.0.1", "0x7F000001", "0177.0.0.1", "0x7f.1", "169.254.43518",
		"localhost", "LOCALHOST.", "[::ffff:169.254.169.254]", "1.1.1.0x",
	} {
		_, _, err = get(t, client, "http://"+private+"/latest/meta-data")
		require.ErrorIs(t, err, guard.ErrBlocked, private)
	}
	require.Empty(t, proxy.requests())
	for _, url := range []string{"http://files.example/a", "http://api.example/b"} {
		_, body, err := get(t, client, url)
		require.NoError(t, err)
		require.Equal(t, "fine", body)
	}
}

func TestAPrivateAddressInOtherLettersIsNotAskedForThroughAProxy(t *testing.T) {
	t.Parallel()
	proxy := serve(t, ok)
	at, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	client := &http.Client{Transport: reach(t, "", http.ProxyURL(at), "http://api.example")}
	for _, private := range []string{
		"169。254。169。254", "１６９.２５４.１６９.２５４", "169.254.169.②⑤④", "127.0.0.１", "127｡0｡0｡1", "127.0.0.1。", "127.0.0.1\u00ad", "lo\u00adcalhost",
		"ｌｏｃａｌｈｏｓｔ", "ⓛocalhost", "２１３０７０６４３３", "0ｘ7f000001", "a\u200d.example", "ä_b.example",
	} {
		for _, scheme := range []string{"http", "https"} {
			_, _, err = get(t, client, scheme+"://"+private+"/latest/meta-data")
			require.ErrorIs(t, err, guard.ErrBlocked, "%s://%s", scheme, private)
		}
	}
	require.Empty(t, proxy.requests())
	_, body, err := get(t, client, "http://bücher.example/a")
	require.NoError(t, err)
	require.Equal(t, "fine", body)
}

func TestAnInnerHopOfADownloadIsGuardedToo(t *testing.T) {
	t.Parallel()
	private := serve(t, ok)
	hop := serve(t, answer{status: 307, header: map[string]string{"Location": private.URL}})
	r := reach(t, "", nil, hop.URL)
	client, err := provider.NewClient(provider.Options{Dialect: provider.Google, Clock: newClock(), Base: r})
	require.NoError(t, err)
	_, _, err = get(t, client, hop.URL)
	require.ErrorIs(t, err, guard.ErrBlocked)
	require.Empty(t, private.requests())
}
