//go:build !race

package semantic

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
)

// longDoc is a document whose message is long, and whose text begins with a word.
func (c trip) longDoc(no int64, word string) *internalpb.DocumentProcessRequest {
	return c.doc(no, fmt.Sprint("long ", no), word, func(p *internalpb.DocumentPart) {
		text := word + " " + strings.Repeat("text ", longBytes/10)
		for i := range 2 {
			p.Chunks = append(p.Chunks[:i], &internalpb.Chunk{Text: text, Start: int64(i * len(text)), End: int64((i + 1) * len(text))})
		}
		p.ChunkCount = 2
	})
}

func TestASmallDocumentDoesNotWaitBehindLongOnesThatWereSentBefore(t *testing.T) {
	f := newFlow(t)
	f.config.Workers = 1
	g := newGate("slow")
	f.embedding = func(texts []string) error { g.pass(strings.Join(texts, " ")); return nil }
	long, small := f.syncing(), f.syncing()
	for no := range int64(5) {
		f.publishes(long.longDoc(no+1, "slow"))
	}
	f.publishes(long.completed(5))
	f.runs()
	await(t, "the long ones are embedded", g.inside)
	f.publishes(small.doc(1, "small", "quick"), small.completed(1))
	f.becomes(small, "completed")
	require.Equal(t, "running", long.verdict())
	close(g.open)
	f.becomes(long, "completed")
}

func TestASmallDocumentDoesNotWaitBehindLongOnesOfItsOwnBatch(t *testing.T) {
	f := newFlow(t)
	f.config.Workers = 1
	g := newGate("slow")
	f.embedding = func(texts []string) error { g.pass(strings.Join(texts, " ")); return nil }
	long, small := f.syncing(), f.syncing()
	f.publishes(long.longDoc(1, "slow"), small.doc(1, "small", "quick"), small.completed(1), long.completed(1))
	f.runs()
	f.becomes(small, "completed")
	require.Equal(t, "running", long.verdict())
	close(g.open)
	f.becomes(long, "completed")
}

func TestAWorkerWaitsWithLongMessagesUntilThereIsRoomForThem(t *testing.T) {
	f := newFlow(t)
	require.True(t, f.long.room.TryAcquire(longRoom))
	long, small := f.syncing(), f.syncing()
	f.publishes(long.longDoc(1, "long"), small.doc(1, "small", "quick"), small.completed(1), long.completed(1))
	batch, returned := f.pulled(4), make(chan struct{})
	go func() {
		defer close(returned)
		f.handleApart(ctx, batch)
	}()
	f.becomes(small, "completed")
	select {
	case <-returned:
		t.Error("it has not waited")
	default:
	}
	require.Equal(t, "running", long.verdict())
	f.long.room.Release(longRoom)
	f.becomes(long, "completed")
	await(t, "it returns", returned)
	f.long.work.Wait()
	require.True(t, f.long.room.TryAcquire(longRoom), "all of it is given back")
}

func TestWhatWaitsToBeHandledAtAStopIsHandedBack(t *testing.T) {
	f := newFlow(t)
	require.True(t, f.long.places.TryAcquire(int64(f.config.Workers)))
	c := f.syncing()
	f.publishes(c.longDoc(1, "long"), c.completed(1))
	working, stop := context.WithCancel(ctx)
	f.handleApart(working, f.pulled(2))
	stop()
	f.long.work.Wait()
	f.noTryIsBurnt()
	f.long.places.Release(int64(f.config.Workers))
	f.runs()
	f.becomes(c, "completed")
}

func TestWhatHasNoRoomAtAStopIsHandedBack(t *testing.T) {
	f := newFlow(t)
	require.True(t, f.long.room.TryAcquire(longRoom))
	c := f.syncing()
	f.publishes(c.longDoc(1, "long"), c.completed(1))
	working, stop := context.WithCancel(ctx)
	stop()
	f.handleApart(working, f.pulled(2))
	f.long.room.Release(longRoom)
	f.runs()
	f.becomes(c, "completed")
}

func TestWhatKeepsTheContentOfALongDocumentDoesNotOvertakeIt(t *testing.T) {
	f := newFlow(t)
	f.config.Workers = 1
	c := f.syncing()
	put := c.longDoc(1, "long")
	id, hash := put.GetPart().SourceId, put.GetPart().ContentHash
	f.publishes(put, c.doc(2, id, "", touched(hash, "renamed")), c.completed(2))
	f.runs()
	f.becomes(c, "completed")
	require.Equal(t, "stored renamed 2", one[string](f.fixture, `SELECT status || ' ' || version_token || ' ' || chunk_count FROM documents WHERE source_id = $1`, id))
}

func TestMessagesAreLongByTheirBytesAndTakeThoseOfTheirTryAlong(t *testing.T) {
	batch := []jetstream.Msg{
		sized("a", 1), sized("b", longBytes-1), sized("c", longBytes), sized("a", 2), sized("d", 3*longBytes), sized("c", 3),
		again(sized("e", longBytes)), again(sized("c", longBytes)),
	}
	small, long, size := splitLong(batch)
	require.Equal(t, []jetstream.Msg{batch[0], batch[1], batch[3], batch[6], batch[7]}, small, "what was delivered before stays with its worker")
	require.Equal(t, []jetstream.Msg{batch[2], batch[4], batch[5]}, long)
	require.EqualValues(t, 4*longBytes+3, size)
}

// sizedMsg is a message with a try, bytes and deliveries, and nothing else.
type sizedMsg struct {
	jetstream.Msg
	try       string
	data      []byte
	delivered uint64
}

func sized(try string, n int) sizedMsg {
	return sizedMsg{try: try, data: make([]byte, n), delivered: 1}
}

func again(m sizedMsg) sizedMsg {
	m.delivered++
	return m
}

func (m sizedMsg) Data() []byte { return m.data }

func (m sizedMsg) Headers() nats.Header { return nats.Header{topology.HeaderTry: {m.try}} }

func (m sizedMsg) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{NumDelivered: m.delivered}, nil
}
