package guard_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/echomind/sync/internal/guard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func prefixes(t *testing.T, cidrs ...string) []netip.Prefix {
	t.Helper()
	var out []netip.Prefix
	for _, c := range cidrs {
		p, err := netip.ParsePrefix(c)
		require.NoError(t, err)
		out = append(out, p)
	}
	return out
}

func TestOnlyPublicAddressesAreAllowed(t *testing.T) {
	for addr, public := range map[string]bool{
		"1.1.1.1":                true,
		"93.184.216.34":          true,
		"172.15.255.255":         true,
		"172.32.0.0":             true,
		"100.63.255.255":         true,
		"100.128.0.0":            true,
		"223.255.255.255":        true,
		"2606:4700:4700::1111":   true,
		"2a00:1450:4001::200e":   true,
		"::ffff:1.1.1.1":         true,
		"64:ff9b::101:101":       true,
		"2002:101:101::1":        true,
		"0.0.0.0":                false,
		"0.1.2.3":                false,
		"10.0.0.1":               false,
		"100.64.0.1":             false,
		"100.100.100.200":        false,
		"127.0.0.1":              false,
		"127.255.255.254":        false,
		"168.63.129.16":          false,
		"169.254.169.254":        false,
		"172.16.0.1":             false,
		"172.31.255.255":         false,
		"192.0.0.192":            false,
		"192.0.2.1":              false,
		"192.88.99.1":            false,
		"192.168.1.1":            false,
		"198.18.0.1":             false,
		"198.19.255.255":         false,
		"198.51.100.7":           false,
		"203.0.113.7":            false,
		"224.0.0.1":              false,
		"239.255.255.250":        false,
		"240.0.0.1":              false,
		"255.255.255.255":        false,
		"::":                     false,
		"::1":                    false,
		"::7f00:1":               false,
		"::ffff:127.0.0.1":       false,
		"::ffff:169.254.169.254": false,
		"::ffff:0:7f00:1":        false,
		"64:ff9b::7f00:1":        false,
		"64:ff9b::a9fe:a9fe":     false,
		"64:ff9b:1::101:101":     false,
		"100::1":                 false,
		"2001::1":                false,
		"2001:db8::1":            false,
		"2002:7f00:1::1":         false,
		"2002:a9fe:a9fe::":       false,
		"3fff::1":                false,
		"4000::1":                false,
		"5f00::1":                false,
		"fc00::1":                false,
		"fd00:ec2::254":          false,
		"fe80::1":                false,
		"fe80::1%eth0":           false,
		"fec0::1":                false,
		"ff02::1":                false,
	} {
		t.Run(addr, func(t *testing.T) {
			err := guard.New("CHUNKER_ALLOW_CIDRS", nil).Check(netip.MustParseAddr(addr))
			if public {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, guard.ErrBlocked)
		})
	}
}

func TestTheZeroAddressIsRefused(t *testing.T) {
	require.ErrorIs(t, (&guard.Guard{}).Check(netip.Addr{}), guard.ErrBlocked)
}

func TestAnAllowedRangeIsAnException(t *testing.T) {
	for name, c := range map[string]struct {
		allow, addr string
		ok          bool
	}{
		"address in it":             {"127.0.0.0/8", "127.0.0.1", true},
		"address beside it":         {"127.0.0.0/8", "10.0.0.1", false},
		"mapped address":            {"127.0.0.0/8", "::ffff:127.0.0.1", true},
		"mapped range":              {"::ffff:127.0.0.0/104", "127.0.0.1", true},
		"range with host bits":      {"10.1.2.3/8", "10.9.9.9", true},
		"address with a zone":       {"fe80::/10", "fe80::1%eth0", true},
		"embedded address":          {"10.0.0.0/8", "64:ff9b::a00:1", true},
		"embedding range":           {"64:ff9b::/96", "64:ff9b::a00:1", true},
		"IPv4 is not in IPv6's all": {"::/0", "127.0.0.1", false},
		"everything of IPv4":        {"0.0.0.0/0", "127.0.0.1", true},
	} {
		t.Run(name, func(t *testing.T) {
			err := guard.New("CHUNKER_ALLOW_CIDRS", prefixes(t, c.allow)).Check(netip.MustParseAddr(c.addr))
			require.Equal(t, c.ok, err == nil, "%v", err)
		})
	}
}

func TestWhereOnlyListedAddressesAreAllowedPublicOnesAreRefusedToo(t *testing.T) {
	g := guard.Only("API_WEBHOOK_ALLOW_CIDRS", prefixes(t, "10.0.0.0/8", "1.1.1.1/32"))
	for addr, ok := range map[string]bool{"10.1.2.3": true, "1.1.1.1": true, "1.1.1.2": false, "127.0.0.1": false} {
		require.Equal(t, ok, g.Check(netip.MustParseAddr(addr)) == nil, addr)
	}
	require.EqualError(t, g.Check(netip.MustParseAddr("1.1.1.2")), "address 1.1.1.2 is refused (not listed): add 1.1.1.2/32 to API_WEBHOOK_ALLOW_CIDRS if this service may connect to it")
}

func TestTheErrorNamesTheAddressAndTheSetting(t *testing.T) {
	err := guard.New("CHUNKER_ALLOW_CIDRS", nil).Check(netip.MustParseAddr("169.254.169.254"))
	require.EqualError(t, err, "address 169.254.169.254 is refused (link-local, where cloud metadata lives, RFC 3927): "+
		"add 169.254.169.254/32 to CHUNKER_ALLOW_CIDRS if this service may connect to it")
	var blocked *guard.BlockedError
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, "169.254.169.254", blocked.Addr.String())
}

func get(t *testing.T, g *guard.Guard, resolver *net.Resolver, target string) error {
	t.Helper()
	transport := g.Transport(guard.TransportConfig{Resolver: resolver})
	t.Cleanup(transport.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	require.NoError(t, err)
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err == nil {
		err = res.Body.Close()
	}
	return err
}

func TestTheHeaderOfAnAnswerIsBounded(t *testing.T) {
	for bytes, ok := range map[int]bool{guard.MaxHeaderBytes / 2: true, guard.MaxHeaderBytes + 1: false} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", bytes)) }))
		t.Cleanup(srv.Close)
		err := get(t, guard.New("CHUNKER_ALLOW_CIDRS", prefixes(t, "127.0.0.0/8")), nil, srv.URL)
		require.Equal(t, ok, err == nil, "%d bytes: %v", bytes, err)
	}
}

func TestALoopbackServerIsReachedOnlyIfAllowed(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	require.ErrorIs(t, get(t, guard.New("CHUNKER_ALLOW_CIDRS", nil), nil, srv.URL), guard.ErrBlocked)
	require.NoError(t, get(t, guard.New("CHUNKER_ALLOW_CIDRS", prefixes(t, "127.0.0.0/8")), nil, srv.URL))
}

func TestNoSpellingOfLoopbackReachesIt(t *testing.T) {
	var hits atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	require.NoError(t, err)
	resolver := resolverAnswering(t, [4]byte{127, 0, 0, 1})
	for _, host := range []string{"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "[::ffff:7f00:1]", "localhost", "127.0.0.1."} {
		for _, r := range []*net.Resolver{nil, resolver} {
			require.Error(t, get(t, guard.New("CHUNKER_ALLOW_CIDRS", nil), r, "http://"+host+":"+port+"/"), host)
		}
	}
	require.Zero(t, hits.Load())
}

func TestANameThatResolvesToLoopbackIsRefused(t *testing.T) {
	resolver := resolverAnswering(t, [4]byte{127, 0, 0, 1})
	require.True(t, blocked(t, get(t, guard.New("CHUNKER_ALLOW_CIDRS", nil), resolver, "http://public.example:1/")))
}

// blocked tells whether a name was refused for its address.
func blocked(t *testing.T, err error) bool {
	t.Helper()
	var name *guard.NameError
	require.ErrorAs(t, err, &name)
	return name.Blocked
}

func TestTheErrorDoesNotTellAPrivateNameFromOneThatDoesNotExist(t *testing.T) {
	g := guard.New("CHUNKER_ALLOW_CIDRS", nil)
	private := get(t, g, resolverAnswering(t, [4]byte{10, 1, 2, 3}), "http://db.internal.example/")
	missing := get(t, g, resolverRefusing(t), "http://db.internal.example/")
	require.True(t, blocked(t, private))
	require.False(t, blocked(t, missing))
	require.Equal(t, missing.Error(), private.Error())
	require.Contains(t, private.Error(), `"db.internal.example" has no public address: correct the name, or add its private address to CHUNKER_ALLOW_CIDRS`)
	for _, sentinel := range []error{guard.ErrBlocked, context.DeadlineExceeded} {
		require.Equal(t, errors.Is(missing, sentinel), errors.Is(private, sentinel), "nor does what comes of it")
	}
}

func TestANameThatRebindsIsRefusedAtTheNextConnection(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	require.NoError(t, err)
	g := guard.New("CHUNKER_ALLOW_CIDRS", prefixes(t, "127.0.0.1/32"))
	target := "http://rebinding.example:" + port + "/"
	require.NoError(t, get(t, g, resolverAnswering(t, [4]byte{127, 0, 0, 1}), target))
	require.True(t, blocked(t, get(t, g, resolverAnswering(t, [4]byte{169, 254, 169, 254}), target)))
}

func TestARedirectIntoThePrivateNetworkIsRefused(t *testing.T) {
	srv := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data/", http.StatusFound))
	t.Cleanup(srv.Close)
	err := get(t, guard.New("CHUNKER_ALLOW_CIDRS", prefixes(t, "127.0.0.0/8")), nil, srv.URL)
	require.ErrorIs(t, err, guard.ErrBlocked)
	require.ErrorContains(t, err, "169.254.169.254")
}

func TestProxySettingsOfTheEnvironmentAreIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://10.0.0.1:3128")
	t.Setenv("ALL_PROXY", "http://10.0.0.1:3128")
	transport := guard.New("CHUNKER_ALLOW_CIDRS", nil).Transport(guard.TransportConfig{})
	require.Nil(t, transport.Proxy)
	err := get(t, guard.New("CHUNKER_ALLOW_CIDRS", nil), nil, "http://127.0.0.1:1/")
	var blocked *guard.BlockedError
	require.ErrorAs(t, err, &blocked)
	require.Equal(t, "127.0.0.1", blocked.Addr.String())
}

func TestOtherNetworksThanTCPAreRefused(t *testing.T) {
	conn, err := guard.New("CHUNKER_ALLOW_CIDRS", prefixes(t, "127.0.0.0/8")).Dialer(guard.TransportConfig{}).DialContext(t.Context(), "udp", "127.0.0.1:53")
	if err == nil {
		err = conn.Close()
	}
	require.ErrorIs(t, err, guard.ErrBlocked)
}

// resolverAnswering resolves every name to addr, through a real DNS exchange on loopback.
func resolverAnswering(t *testing.T, addr [4]byte) *net.Resolver {
	t.Helper()
	return resolver(t, func(query []byte) []byte { return answerDNS(query, &addr) })
}

// resolverRefusing knows no name.
func resolverRefusing(t *testing.T) *net.Resolver {
	t.Helper()
	return resolver(t, func(query []byte) []byte { return answerDNS(query, nil) })
}

func resolver(t *testing.T, reply func(query []byte) []byte) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, peer, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := reply(buf[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, peer)
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func answerDNS(query []byte, addr *[4]byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if addr == nil {
		m.RCode = dnsmessage.RCodeNameError
	} else if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: *addr},
		}}
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}
