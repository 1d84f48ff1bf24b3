package stack_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/console"
	"github.com/echomind/sync/internal/config"
)

// recorder keeps everything that is written to it.
type recorder struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// echomind types a command, and returns all it prints.
func echomind(t *testing.T, dataDir string, args ...string) string {
	t.Helper()
	out, code := execute(dataDir, args...)
	require.Zero(t, code, out)
	return out
}

// execute types a command, and returns all it prints and its exit code.
func execute(dataDir string, args ...string) (string, int) {
	var out bytes.Buffer
	root := console.RootFor(config.Lookup{DataDir: dataDir})
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	code := console.Execute(context.Background(), root)
	return out.String(), code
}

// prints are the outputs of commands that only read. Each command is written as a user types it, and typed again where a busy machine
// has answered too late.
func prints(t *testing.T, dataDir string, commands ...string) string {
	t.Helper()
	var all strings.Builder
	for _, command := range commands {
		out, code := execute(dataDir, strings.Fields(command)...)
		for again := 0; code != 0 && again < 10 && strings.Contains(out, "no answer within"); again++ {
			all.WriteString(out)
			out, code = execute(dataDir, strings.Fields(command)...)
		}
		require.Zero(t, code, out)
		all.WriteString(out)
	}
	return all.String()
}

// overhear writes every message of the bus to w: its subject, its headers and what of its content is looked at.
func overhear(t *testing.T, natsURL string, w io.Writer, content func(*nats.Msg) []byte) {
	t.Helper()
	bus, err := nats.Connect(natsURL)
	require.NoError(t, err)
	t.Cleanup(bus.Close)
	_, err = bus.Subscribe(">", func(m *nats.Msg) { _, _ = fmt.Fprintf(w, "%s %v %s\n", m.Subject, m.Header, content(m)) })
	require.NoError(t, err)
	require.NoError(t, bus.Flush())
}

// metrics are what the operator's page shows.
func metrics(t *testing.T, httpAddr string) string {
	t.Helper()
	answer, err := http.Get("http://" + httpAddr + "/metrics")
	require.NoError(t, err)
	exposed, err := io.ReadAll(answer.Body)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, err)
	return string(exposed)
}

// requireNowhere says where a secret stands, and which place was never written to.
func requireNowhere(t *testing.T, secret string, places map[string]string) {
	t.Helper()
	for place, text := range places {
		require.NotEmpty(t, text, place)
		for told, from := 0, 0; told < 40; told++ {
			at := strings.Index(text[from:], secret)
			if at < 0 {
				break
			}
			at += from
			t.Errorf("%s: …%s…", place, text[max(0, at-200):min(len(text), at+100)])
			from = at + len(secret)
		}
	}
}
