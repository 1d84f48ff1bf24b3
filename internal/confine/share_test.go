package confine

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// known counts the owners that wait for a place or have one.
func (l *lanes) known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owners)
}

// waiting counts the requests that wait for a place.
func (l *lanes) waiting() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.owners {
		n += len(o.waiting[fast]) + len(o.waiting[heavy]) + len(o.waiting[slow])
	}
	return n
}

func TestContentThatWaitsForAChildIsNotCopied(t *testing.T) {
	f := newPool(t, 1, Limits{MemoryMB: 64})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _, _ = f.Share("first").ask(ctx, "linger") })
	content := make([]byte, 32<<20)
	require.Eventually(t, func() bool { return f.lanes.waiting() == 0 && f.lanes.known() == 1 }, time.Minute, time.Millisecond)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 8 {
		wg.Go(func() { _, _ = f.Share("second").ask(ctx, "echo", content) })
	}
	require.Eventually(t, func() bool { return f.lanes.waiting() == 8 }, time.Minute, time.Millisecond)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(content)/4))
}

func TestALargeRequestIsSentWithoutACopy(t *testing.T) {
	f := newPool(t, 1, Limits{MemoryMB: 256})
	content := bytes.Repeat([]byte("x"), 16<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := f.Share("somebody").ask(t.Context(), "pid", []byte("a head"), content, []byte("a tail"))
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(content)/4))
}

func TestEveryPartOfARequestArrives(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, Limits{MemoryMB: 256})
	large := bytes.Repeat([]byte("0123456789"), 20_000)
	for _, parts := range [][][]byte{{}, {nil, {}}, {[]byte("a")}, {large}, {[]byte("a"), large, []byte("b"), large, nil}, {large[:bufferBytes]}} {
		answer, err := f.Share("somebody").ask(t.Context(), "echo", parts...)
		require.NoError(t, err)
		require.True(t, answer == string(bytes.Join(parts, nil)))
	}
}

// Ten hostile owners use everything except other owners' fair share.
func TestSmallDocumentsGoOnWhateverHostileSyncsDo(t *testing.T) {
	t.Parallel()
	const hostile, each = 10, 8
	f := newPool(t, 4, Limits{MemoryMB: 64, Slice: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range hostile {
		share := f.Share(string(rune('a' + i)))
		for range each {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, _ = share.ask(ctx, "spin")
				}
			})
		}
	}
	require.Eventually(t, func() bool { return f.lanes.waiting() >= hostile*each-4 }, time.Minute, time.Millisecond)
	const documents = 500
	for range documents {
		f.echoes(t)
	}
	require.Less(t, testutil.ToFloat64(f.metrics.slow), float64(documents)/2, "the documents did not wait for a slice each")
	require.Zero(t, testutil.ToFloat64(f.metrics.failed.WithLabelValues(string(CPU))), "nor for a whole verdict")
}

func TestADocumentThatNeedsMoreThanASliceIsReadInTheSlowLane(t *testing.T) {
	t.Parallel()
	f := newPool(t, 2, Limits{MemoryMB: 64, Slice: 50 * time.Millisecond, CPU: 30 * time.Second})
	answer, err := f.Share("somebody").ask(t.Context(), "busy", []byte("200ms"))
	require.NoError(t, err)
	require.Equal(t, "done", answer)
	require.InDelta(t, 1, testutil.ToFloat64(f.metrics.slow), 0)
}

func TestASyncThatHasWastedItsBudgetGetsSlicesOnly(t *testing.T) {
	t.Parallel()
	f := newPool(t, 2, Limits{MemoryMB: 64, Slice: 100 * time.Millisecond, CPU: 200 * time.Millisecond, Slow: 500 * time.Millisecond})
	share := f.Share("somebody")
	for _, says := range []string{
		"could not be read: needs more than 200ms of computing", // 300 ms so far
		"could not be read: needs more than 200ms of computing", // in debt, so without a slice: 500 ms
		"could not be read: needs more than 100ms of computing, and this sync has used up the 500ms that it has for such documents",
	} {
		_, err := share.ask(t.Context(), "spin")
		require.EqualError(t, err, says)
	}
	_, err := share.ask(t.Context(), "spin")
	require.False(t, OfRequest(err), "another sync may read it")
	answer, err := share.ask(t.Context(), "echo", []byte("small"))
	require.NoError(t, err)
	require.Equal(t, "small", answer, "what is small is read all the same")
}

// tail calls a function when bytes arrive.
type tail struct {
	io.Reader
	then func()
}

func (r tail) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.then()
	return n, err
}

func TestAChildThatIsBeingKilledAnswersNobodyElse(t *testing.T) {
	t.Parallel()
	c, err := start(t.Context(), Limits{MemoryMB: 64}.withDefaults())
	require.NoError(t, err)
	defer c.end()
	ctx, cancel := context.WithCancel(t.Context())
	c.read = bufio.NewReader(tail{c.out, cancel}) // the context ends just as the answer arrives
	answer, err := c.ask(ctx, request{most: maxFrameBytes, task: "echo", parts: [][]byte{[]byte("answer")}, cpu: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "answer", answer)
	require.True(t, c.retire)
}

func TestADocumentDoesNotWaitForTheSlicesOfAnOwnerWhoHasAllChildren(t *testing.T) {
	t.Parallel()
	f := newPool(t, 2, Limits{MemoryMB: 64, Slice: time.Minute, CPU: time.Minute, Wall: time.Minute})
	f.lanes.mu.Lock()
	f.lanes.patience = time.Millisecond
	f.lanes.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range cap(ended) {
		go func() { _, err := f.Share("hostile").ask(ctx, "linger"); ended <- err }()
	}
	require.Eventually(t, func() bool { f.lanes.mu.Lock(); defer f.lanes.mu.Unlock(); return f.lanes.taken == 2 }, time.Minute, time.Millisecond)
	answer, err := f.Share("ordinary").ask(t.Context(), "pid")
	require.NoError(t, err)
	require.NotEmpty(t, answer)
	require.Empty(t, ended, "the hostile one is still at it")
	cancel()
	for range cap(ended) {
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func TestChildrenGiveWayToTheService(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, Limits{MemoryMB: 64})
	own := niceness()
	said, err := f.Share("somebody").ask(t.Context(), "nice")
	require.NoError(t, err)
	require.NotEqual(t, own, said)
	require.Equal(t, own, niceness(), "the service keeps its own")
}

func niceness() string {
	raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	return fmt.Sprint(raw, " ", err)
}
