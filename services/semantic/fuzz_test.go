package semantic

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
)

// anybodys is a message that anybody could publish, for what is called without a broker.
type anybodys struct {
	silentMessage
	content []byte
	headers nats.Header
}

func (m anybodys) Data() []byte         { return m.content }
func (m anybodys) Headers() nats.Header { return m.headers }

// settledOrGivenUp takes a message to its end, as the service does: stored, or given up and counted.
func (f *fixture) settledOrGivenUp(t *testing.T, m anybodys) {
	t.Helper()
	d, err := decode(m)
	if err == nil {
		err = f.process(ctx, []delivery{d})
	}
	if err != nil {
		require.False(t, isWait(err) || isHeld(err), "it would be repeated for ever: %v", err)
		require.NoError(t, f.countPoison(ctx, d, err))
	}
}

// FuzzMessage publishes what it likes under the session and try of a run of its own.
func FuzzMessage(f *testing.F) {
	x := onDatabase(f)
	servers := x.connects()
	x.Semantic = x.service(servers)
	victim := x.synced(map[string]string{"a": "apple", "b": "banana"}).again()
	author := x.synced(map[string]string{"a": "avocado"})
	for _, m := range []*internalpb.DocumentProcessRequest{
		author.doc(1, "a", "text"), author.doc(2, "b", "text", part(1, 3)), author.doc(1, "c", "", unreadable), author.doc(1, "a", "", touched("h", "v")),
		author.deletion(1, "a"), author.checkpoint(1, 7), author.seen(1, 1, "a", "b"), author.completed(1), victim.doc(1, "a", "planted"),
	} {
		m.ConfigVersion = 0
		content, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(content, int64(1))
	}
	before := victim.rows()
	f.Fuzz(func(t *testing.T, content []byte, no int64) {
		x.t = t
		x.Semantic = x.service(servers)
		if author.status() == "DISABLED" { // it has failed too often
			x.exec(`SELECT moves.enable($1)`, author.connector)
		}
		mine := author.again()
		headers := nats.Header{}
		headers.Set(topology.HeaderSession, mine.session.String())
		headers.Set(topology.HeaderTry, mine.try.String())
		headers.Set(topology.HeaderNumber, "1")
		m := &internalpb.DocumentProcessRequest{}
		if proto.Unmarshal(content, m) == nil {
			m.ChunkingSession, m.Try = mine.session.String(), mine.try.String()
			var err error
			content, err = proto.Marshal(m)
			require.NoError(t, err)
		}
		for range 2 { // it may be delivered again
			x.settledOrGivenUp(t, anybodys{content: content, headers: headers})
		}
		if mine.status() == "SYNCING" {
			x.settledOrGivenUp(t, anybodys{content: must(proto.Marshal(mine.doc(no, "z", "zebra"))), headers: headers})
		}
		require.NoError(t, x.CompleteStored(ctx))
		require.NoError(t, x.Sweep(ctx))
		require.Equal(t, before, victim.rows())
		overs["released"](mine)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
