package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/internal/deadline"
)

// kept keeps what tasks allocate from being collected.
var kept [][]byte

// tasks do what parsers do with hostile content.
var tasks = []Task{
	{"echo", bytes.Clone},
	{"pid", func([]byte) []byte { return strconv.AppendInt(nil, int64(os.Getpid()), 10) }},
	{"grow", func(request []byte) []byte {
		mb, _ := strconv.Atoi(string(request))
		for range mb {
			grow(1 << 20)
		}
		kept = nil
		return []byte("grown")
	}},
	{"leap", func([]byte) []byte { grow(1 << 40); return nil }},
	{"bound", func([]byte) []byte { grow(3 << 30); return nil }},
	{"recurse", func([]byte) []byte { return []byte{deeper(0)} }},
	{"spin", func([]byte) []byte {
		for n := 0; ; n++ {
			_ = n
		}
	}},
	{"linger", func([]byte) []byte { select {} }},
	{"panic", func([]byte) []byte { panic("an odd page") }},
	{"exit", func([]byte) []byte { os.Exit(3); return nil }},
	{"nice", func([]byte) []byte { return []byte(niceness()) }},
	{"busy", func(request []byte) []byte {
		much, _ := time.ParseDuration(string(request))
		for began := cpuTime(); cpuTime()-began < much; {
			_ = much
		}
		return []byte("done")
	}},
	{"ahead", func([]byte) []byte {
		var frames bytes.Buffer
		_ = writeAnswer(&frames, 0, []byte("now"))
		_ = writeAnswer(&frames, 0, []byte("for whoever comes next"))
		_, _ = os.Stdout.Write(frames.Bytes())
		select {}
	}},
	{"look", func(request []byte) []byte { return []byte(look(string(request))) }},
}

func grow(size int) {
	piece := make([]byte, size)
	for i := 0; i < len(piece); i += 4096 {
		piece[i] = 1
	}
	kept = append(kept, piece)
}

func deeper(n int) byte {
	var frame [4096]byte
	if n < 1<<40 {
		frame[n%4096] = deeper(n + 1)
	}
	return frame[(n+1)%4096]
}

// look says what a child can reach.
func look(file string) string {
	var said []string
	try := func(what string, err error) { said = append(said, fmt.Sprintf("%s: %v", what, err == nil)) }
	_, err := os.Open(file)
	try("read", err)
	try("remove", os.Remove(file))
	_, err = net.DialTimeout("udp", "127.0.0.1:53", time.Second)
	try("udp", err)
	_, err = net.DialTimeout("tcp", "127.0.0.1:53", time.Second)
	try("tcp", err)
	_, err = os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	try("start", err)
	said = append(said, fmt.Sprintf("environment: %d", len(os.Environ())))
	return strings.Join(said, ", ")
}

func TestMain(m *testing.M) {
	Serve(tasks...)
	beParent()
	goleak.VerifyTestMain(m)
}

type fixture struct {
	*Pool
	metrics *Metrics
	log     *bytes.Buffer
}

func newPool(t testing.TB, children int, limits Limits) fixture {
	t.Helper()
	f := fixture{metrics: NewMetrics(prometheus.NewRegistry()), log: &bytes.Buffer{}}
	var err error
	f.Pool, err = New(t.Context(), children, limits, slog.New(slog.NewTextHandler(f.log, nil)), f.metrics)
	require.NoError(t, err)
	t.Cleanup(func() {
		f.Close()
		require.Zero(t, testutil.ToFloat64(f.metrics.alive), "every child is ended")
	})
	return f
}

// ask accepts any answer.
func (s *Share) ask(ctx context.Context, task string, parts ...[]byte) (answer string, err error) {
	err = s.Do(ctx, task, maxFrameBytes, func(said string) error { answer = said; return nil }, parts...)
	return answer, err
}

func (f fixture) echoes(t testing.TB) {
	t.Helper()
	answer, err := f.Share("somebody").ask(t.Context(), "echo", []byte("in "), []byte("two parts"))
	require.NoError(t, err)
	require.Equal(t, "in two parts", answer)
}

func TestAChildAnswersManyRequests(t *testing.T) {
	t.Parallel()
	f := newPool(t, 2, Limits{MemoryMB: 64})
	first, err := f.Share("somebody").ask(t.Context(), "pid")
	require.NoError(t, err)
	require.NotEqual(t, strconv.Itoa(os.Getpid()), first)
	for range 100 {
		f.echoes(t)
	}
	last, err := f.Share("somebody").ask(t.Context(), "pid")
	require.NoError(t, err)
	require.Equal(t, first, last)
	large := bytes.Repeat([]byte("large "), 2<<20)
	answer, err := f.Share("somebody").ask(t.Context(), "echo", large)
	require.NoError(t, err)
	require.True(t, answer == string(large), "a request larger than any pipe")
}

func TestARequestThatCostsItsChildFailsAloneAndSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		task, request string
		cause         Cause
		says          string
	}{
		"it grows":            {"grow", "2000", Memory, "could not be read: needs more than 64 MB"},
		"it leaps":            {"leap", "", Memory, "could not be read: needs more than 64 MB"},
		"it leaps over":       {"bound", "", Memory, "could not be read: needs more than 64 MB"},
		"it goes deep":        {"recurse", "", Memory, "could not be read: needs more than 64 MB"},
		"it computes":         {"spin", "", CPU, "could not be read: needs more than 1s of computing"},
		"it lingers":          {"linger", "", Late, "could not be read: confine.read: no answer within 5s"},
		"it panics":           {"panic", "", Broken, "could not be read: the parser broke: an odd page"},
		"it ends":             {"exit", "", Broken, "could not be read: its reader ended (exit status 3)"},
		"there is no task so": {"nothing", "", Broken, `could not be read: the parser broke: there is no task "nothing"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := Limits{MemoryMB: 64, CPU: time.Minute}
			switch c.cause {
			case CPU:
				limits.CPU = time.Second
			case Late:
				limits.Wall = 5 * time.Second
			}
			f := newPool(t, 2, limits)
			neighbours, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				for neighbours.Err() == nil {
					f.echoes(t)
				}
			})
			_, err := f.Share("somebody").ask(t.Context(), c.task, []byte(c.request))
			stop()
			wg.Wait()
			var failure *Failure
			require.ErrorAs(t, err, &failure)
			require.EqualError(t, err, c.says)
			require.Equal(t, c.cause, failure.Cause)
			require.Equal(t, c.cause != Late, OfRequest(err))
			require.InDelta(t, 1, testutil.ToFloat64(f.metrics.failed.WithLabelValues(string(c.cause))), 0)
			f.echoes(t)
		})
	}
}

// The Go runtime needs a part of it.
func TestARequestMayUseTheMemoryThatItHas(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, Limits{MemoryMB: 128})
	for range 5 {
		answer, err := f.Share("somebody").ask(t.Context(), "grow", []byte("100"))
		require.NoError(t, err)
		require.Equal(t, "grown", answer)
	}
}

func TestAChildReachesNothing(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, Limits{MemoryMB: 64})
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	answer, err := f.Share("somebody").ask(t.Context(), "look", []byte(file))
	require.NoError(t, err)
	if runtime.GOOS != "linux" { // there Landlock alone limits what needs no descriptor
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		answer = strings.Replace(answer, "remove: true", "remove: false", 1)
	}
	require.Equal(t, "read: false, remove: false, udp: false, tcp: false, start: false, environment: 0", answer)
}

func TestAChildWhoseAnswerIsNotRightIsEnded(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, Limits{MemoryMB: 64})
	share, before := f.Share("somebody"), ""
	for name, c := range map[string]struct {
		task string
		most int64
		read error
		says string
	}{
		"it is wrong":                {"echo", 100, errors.New("it is odd"), "could not be read: the parser broke: it is odd"},
		"it is too long":             {"echo", 99, nil, "could not be read: the parser broke: an answer of 100 bytes, at most 99 are taken"},
		"more comes than was asked":  {"ahead", 100, nil, ""},
		"it is right, for what came": {"echo", 100, nil, ""},
	} {
		pid, err := share.ask(t.Context(), "pid")
		require.NoError(t, err, name)
		require.NotEqual(t, before, pid, name)
		taken := false
		err = share.Do(t.Context(), c.task, c.most, func(string) error { taken = true; return c.read }, make([]byte, 100))
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.EqualError(t, err, c.says, name)
			require.True(t, OfRequest(err), name)
		}
		require.Equal(t, c.most >= 100, taken, "what is too long is not even read: %s", name)
		before = pid
		if name == "it is right, for what came" {
			again, err := share.ask(t.Context(), "pid")
			require.NoError(t, err)
			require.Equal(t, pid, again)
			f.kill(t)
		}
	}
}

func TestAChildThatIsKilledFromOutsideCostsNothing(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, Limits{MemoryMB: 64})
	for range 3 { // while it waits
		f.kill(t)
		f.echoes(t)
	}
	require.Zero(t, testutil.ToFloat64(f.metrics.failed.WithLabelValues(string(Broken))))
}

func TestWhatAKilledChildReadIsReadOnceMore(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, Limits{MemoryMB: 64, Wall: 5 * time.Second})
	said, err := f.Share("somebody").ask(t.Context(), "pid")
	require.NoError(t, err)
	pid, err := strconv.Atoi(said)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := f.Share("somebody").ask(t.Context(), "linger")
		ended <- err
	}()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.idle) == 0
	}, 30*time.Second, time.Millisecond, "the child is at work")
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.EqualError(t, <-ended, "could not be read: confine.read: no answer within 5s", "the second child's verdict")
	require.Contains(t, f.log.String(), "read once more")
	f.echoes(t)
}

func (f fixture) kill(t *testing.T) {
	said, err := f.Share("somebody").ask(t.Context(), "pid")
	require.NoError(t, err)
	pid, err := strconv.Atoi(said)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

func TestARequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newPool(t, 1, Limits{MemoryMB: 64})
	err := deadline.Do(t.Context(), "test", 300*time.Millisecond, func(ctx context.Context) error {
		_, err := f.Share("somebody").ask(ctx, "linger")
		return err
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var failure *Failure
	require.False(t, errors.As(err, &failure), "the document is not at fault")
	f.echoes(t)
}

func TestAPoolOfAProgramThatCannotServeIsRefused(t *testing.T) {
	served.Store(false)
	defer served.Store(true)
	_, err := New(t.Context(), 1, Limits{MemoryMB: 64}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	require.ErrorContains(t, err, "must stand first in main")
}

func BenchmarkDo(b *testing.B) {
	f := newPool(b, 1, Limits{MemoryMB: 256})
	share := f.Share("somebody")
	for _, size := range []int{2 << 10, 1 << 20} {
		request := make([]byte, size)
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := share.ask(b.Context(), "echo", request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
