package leastprivilege

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/streams"
)

// changed is the configuration with one text replaced by another, in a file of the test's own.
func changed(t *testing.T, before, after string) (file string) {
	t.Helper()
	text, err := os.ReadFile(configuration)
	require.NoError(t, err)
	require.Contains(t, string(text), before)
	file = filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), before, after, 1)), 0o600))
	return file
}

func TestAServerWithoutAPasswordForAUserDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, user := range users {
		_, err := server.ProcessConfigFile(changed(t, "$"+variable(user), "$NATS_PASSWORD_NOBODY_HAS_SET"))
		require.ErrorContains(t, err, "NATS_PASSWORD_NOBODY_HAS_SET")
	}
}

// The example in the configuration's comment is a user who works.
func TestTheUserForAnotherTeamsTypeWorksAsWritten(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(configuration)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "# For another team's connector type")
	require.True(t, found)
	example, _, found := strings.Cut(after, "# and for who only watches")
	require.True(t, found)
	var block []string
	for _, line := range strings.Split(example, "\n")[1:] {
		block = append(block, strings.TrimPrefix(line, "#"))
	}
	user := strings.ReplaceAll(strings.Join(block, "\n"), "$NATS_WIKI_PASSWORD", password("wiki"))
	s := run(t, configured(t, changed(t, "users: [", "users: [\n"+user)))
	apply(t, s.ClientURL())
	_, js := as(t, s.ClientURL(), "wiki")
	own, err := topology.SyncConsumer("wiki")
	require.NoError(t, err)
	_, err = streams.EnsureConsumer(context.Background(), js, topology.SyncStream, own)
	require.NoError(t, err)
	others, err := topology.SyncConsumer("web")
	require.NoError(t, err)
	_, err = streams.EnsureConsumer(context.Background(), js, topology.SyncStream, others)
	require.ErrorIs(t, err, streams.ErrNotAllowed)
	_, err = js.Publish(context.Background(), topology.DocumentSubject, nil)
	require.NoError(t, err)
}

func TestAnAccountThatHoldsLessThanTheStreamsMayGrowToIsWarnedOf(t *testing.T) {
	t.Parallel()
	url := serve(t)
	apply(t, url)
	_, js := as(t, url, "setup")
	warnings, err := streams.AccountWarnings(context.Background(), js)
	require.NoError(t, err)
	require.Empty(t, warnings)

	small := run(t, configured(t, changed(t, "jetstream: enabled", "jetstream: { max_file: 2822MB, max_mem: 1MB }")))
	apply(t, small.ClientURL())
	_, js = as(t, small.ClientURL(), "setup")
	warnings, err = streams.AccountWarnings(context.Background(), js)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "the account may store 2822 MiB, of which the streams' bounds take 2816")

	_, js = as(t, url, "scheduler")
	_, err = streams.AccountWarnings(context.Background(), js)
	require.ErrorIs(t, err, streams.ErrNotAllowed)
}

func TestEveryUserIsInTheDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/nats.md")
	require.NoError(t, err)
	options := configured(t, configuration)
	require.Len(t, options.Users, len(users)+1, "and the tests' own")
	for _, user := range users {
		require.Contains(t, string(page), "| `"+user+"` |")
	}
}
