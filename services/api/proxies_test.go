//go:build !race

package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api"
)

// behind is a world whose strangers may try three tokens, each network by itself, and which believes some proxies.
func behind(t *testing.T, trusted ...string) *world {
	t.Helper()
	return newWorld(t, func(c *api.Config) { c.Rate, c.Burst, c.TrustedProxies = 0.001, 3, trusted })
}

// stranger tries a made-up token over a connection of its own, with these lines of X-Forwarded-For as they are.
func (w *world) stranger(forwarded ...string) (status int) {
	w.Helper()
	conn, err := (&net.Dialer{}).DialContext(w.Context(), "tcp", w.server.Listener.Addr().String())
	require.NoError(w, err)
	defer func() { require.NoError(w, conn.Close()) }()
	var request strings.Builder
	fmt.Fprintf(&request, "GET /api/v1/me HTTP/1.1\r\nHost: api\r\nConnection: close\r\nAuthorization: Bearer %s\r\n", identity.Token(1, identity.NewSecret()))
	for _, line := range forwarded {
		fmt.Fprintf(&request, "X-Forwarded-For: %s\r\n", line)
	}
	_, err = conn.Write([]byte(request.String() + "\r\n"))
	require.NoError(w, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(w, err)
	require.NoError(w, answer.Body.Close())
	return answer.StatusCode
}

// usedUp has a network use up what it may try, and requires that it may try no more.
func (w *world) usedUp(forwarded ...string) {
	w.Helper()
	for range 3 {
		require.Equal(w, http.StatusUnauthorized, w.stranger(forwarded...), forwarded)
	}
	require.Equal(w, http.StatusTooManyRequests, w.stranger(forwarded...), forwarded)
}

func TestBehindATrustedProxyEachClientIsLimitedByItself(t *testing.T) {
	t.Parallel()
	w := behind(t, "127.0.0.0/8", "10.0.0.0/8", "fd00::/8")
	w.usedUp("203.0.113.1")
	for _, same := range [][]string{
		{"198.51.100.7, 203.0.113.1"}, {"198.51.100.8,203.0.113.1"}, {"198.51.100.9", "203.0.113.1"}, // what the client wrote itself stands before
		{"203.0.113.1, 10.1.2.3"}, {"203.0.113.1", "10.1.2.3, fd00::1"}, {"203.0.113.1, 10.1.2.3, 127.0.0.1"}, // two proxies
		{"203.0.113.1:4711"}, {"::ffff:203.0.113.1"}, {"[::ffff:203.0.113.1]:80"}, {"garbage, 203.0.113.1"}, {" \t203.0.113.1 "},
	} {
		require.Equal(t, http.StatusTooManyRequests, w.stranger(same...), same)
	}
	w.usedUp("203.0.113.2")
	w.usedUp("2001:db8::1")
	for _, same := range []string{"2001:db8::2", "[2001:db8::3]", "[2001:db8::4]:80", "2001:db8::5%eth0"} {
		require.Equal(t, http.StatusTooManyRequests, w.stranger(same), same)
	}
	require.Equal(t, http.StatusUnauthorized, w.stranger("2001:db8:0:1::1"), "another network of 64 bits")
}

func TestFromWhoIsNoTrustedProxyNothingIsBelieved(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*world{"none": behind(t), "others": behind(t, "10.0.0.0/8", "::/1")} {
		for n := range 3 {
			require.Equal(t, http.StatusUnauthorized, w.stranger(fmt.Sprint("203.0.113.", n)), name)
		}
		require.Equal(t, http.StatusTooManyRequests, w.stranger("203.0.113.77"), name)
		require.Equal(t, http.StatusTooManyRequests, w.stranger(), name)
	}
}

// A client that writes what cannot be read is taken for the nearest proxy, and shares its limit.
func TestHostileHeadersGiveNobodyALimitOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := behind(t, "127.0.0.1/32", "10.0.0.0/8")
	w.usedUp()
	hostile := [][]string{
		{""}, {","}, {"203.0.113.9,"}, {"unknown"}, {"203.0.113.9, _hidden"}, {"203.0.113.9 203.0.113.10"}, {"[203.0.113.9"}, {"[2001:db8::9"}, {"203.0.113.9:port"},
		{"203.0.113.9", strings.Repeat("1", 5000)}, {strings.Repeat(",", 20_000)},
	}
	for _, lines := range hostile {
		require.Equal(t, http.StatusTooManyRequests, w.stranger(lines...), "%.80q", lines)
	}
	w.usedUp("203.0.113.9, " + strings.Repeat("10.0.0.1, ", 30) + "10.0.0.1")
	require.Equal(t, http.StatusUnauthorized, w.stranger("203.0.113.10, "+strings.Repeat("10.0.0.9, ", 3000)+"10.0.0.9"), "after 32 of them the last one that was read")
	w.usedUp("10.0.0.1") // all of them are proxies
}

func TestWhatIsNoNetworkOfProxiesIsRefusedWithTheFix(t *testing.T) {
	t.Parallel()
	var cfg api.Config
	require.NoError(t, config.Load(&cfg))
	cfg.DatabaseURL = "postgres://h/d"
	cfg.TrustedProxies = []string{"10.1.0.0/16", " fd00::/8"}
	require.NoError(t, cfg.Validate())
	for _, c := range []struct{ text, says string }{
		{"10.1.2.3", `API_TRUSTED_PROXIES: "10.1.2.3" is not a network such as 10.1.0.0/16`},
		{"ingress", "is not a network"}, {"", "is not a network"}, {"10.1.2.3/16", "write 10.1.0.0/16, or its /32 alone"},
		{"0.0.0.0/0", "is everybody"}, {"::/0", "is everybody"}, {"::ffff:10.0.0.0/104", "write it as IPv4"},
	} {
		cfg.TrustedProxies = []string{"10.1.0.0/16", c.text}
		require.ErrorContains(t, cfg.Validate(), c.says)
	}
}
