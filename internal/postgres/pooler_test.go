package postgres

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/echomind/sync/testonly/testkit"
)

// pooler passes connections on like a pooler without support for prepared statements: the process id that it names at the login
// is its own number, larger than any process id.
func pooler(t *testing.T, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	do(t, err)
	target := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	do(t, err)
	var open sync.WaitGroup
	t.Cleanup(func() { do(t, listener.Close()); open.Wait() })
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer func() { _ = client.Close() }()
				server, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer func() { _ = server.Close() }()
				open.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
				if renumber(client, server) == nil {
					_, _ = io.Copy(client, server)
				}
			})
		}
	})
	u.Host = listener.Addr().String()
	return u.String()
}

// renumber passes the login's messages on, up to the one with the process id, which it changes.
func renumber(client io.Writer, server io.Reader) error {
	for {
		head := make([]byte, 5) // a letter, and the length of the rest
		if _, err := io.ReadFull(server, head); err != nil {
			return err
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return err
		}
		if head[0] == 'K' {
			body[0] |= 0x80
		}
		if _, err := client.Write(slices.Concat(head, body)); err != nil || head[0] == 'K' {
			return err
		}
	}
}

func TestAPoolerThatSharesPreparedStatementsIsRefused(t *testing.T) {
	u, err := url.Parse(pooler(t, testkit.Database(t, accounts)))
	do(t, err)
	for mode, says := range map[string]string{
		"": "cache_describe", "cache_statement": "cache_describe", "describe_exec": "cache_describe", "cache_describe": "",
	} {
		query := u.Query()
		if query.Del("default_query_exec_mode"); mode != "" {
			query.Set("default_query_exec_mode", mode)
		}
		u.RawQuery = query.Encode()
		err := open(t, u.String()).Ping(t.Context())
		if says == "" {
			do(t, err)
		} else if !errors.Is(err, ErrPooler) || Unavailable(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("mode %q: %v", mode, err)
		}
	}
}

func TestARoleIsRefusedBehindAPoolerBeforeItIsTaken(t *testing.T) {
	conn, err := Connect(t.Context(), pooler(t, testkit.Database(t, accounts))+"&default_query_exec_mode=cache_describe", "test", As("pg_read_all_data"))
	if conn != nil || !errors.Is(err, ErrPooler) || Unavailable(err) || !strings.Contains(err.Error(), "ALTER ROLE") {
		t.Errorf("error %v", err)
	}
}
