package semantic

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
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

func TestMessagesAreLongByTheirBytes(t *testing.T) {
	var batch []jetstream.Msg
	for _, n := range []int{1, longBytes - 1, longBytes, 3 * longBytes} {
		batch = append(batch, sized(n))
	}
	small, long, size := splitLong(batch)
	require.Equal(t, batch[:2], small)
	require.Equal(t, batch[2:], long)
	require.EqualValues(t, 4*longBytes, size)
}

// sizedMsg is a message of which the bytes alone are known.
type sizedMsg struct {
	jetstream.Msg
	data []byte
}

func sized(n int) jetstream.Msg { return sizedMsg{data: make([]byte, n)} }

func (m sizedMsg) Data() []byte { return m.data }
