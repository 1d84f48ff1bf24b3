//go:build node

package contract

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/services/semantic"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// nodeModules names the folder where the packages of examples/node are installed: see `make test-node`.
const nodeModules = "CONTRACT_NODE_MODULES"

// shelf is everything that examples/node needs beside it, each part with the rights of its own.
type shelf struct {
	*database
	*library
	nats  string
	login string
	id    int32
}

func newShelf(t *testing.T, books map[string]string) *shelf {
	t.Helper()
	require.NotEmpty(t, os.Getenv(nodeModules), "run it by `make test-node`, which installs the packages of examples/node")
	s := &shelf{database: newDatabase(t), library: newLibrary(t), nats: guarded(t)}
	s.login = s.database.login(subscriber)
	for id, text := range books {
		s.put(id, text)
	}
	s.serve(s.nats, access)
	s.id = s.add(map[string]string{"url": s.library.url})
	return s
}

func (s *shelf) add(settings map[string]string) (id int32) {
	s.Helper()
	cfg, err := json.Marshal(settings)
	require.NoError(s, err)
	return ask[int32](s.database, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ('mine', 'shelf', 1, $1, 60) RETURNING id`, cfg)
}

// process is the example at work.
type process struct {
	*exec.Cmd
	t     *testing.T
	ended chan error
}

// start starts the example.
func (s *shelf) start(env ...string) *process {
	s.Helper()
	dir := s.TempDir()
	for _, name := range []string{"shelf.mjs", "wire.mjs", "package.json"} {
		text, err := os.ReadFile(filepath.Join(repository, "examples/node", name))
		require.NoError(s, err)
		require.NoError(s, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	modules, err := filepath.Abs(os.Getenv(nodeModules))
	require.NoError(s, err)
	require.NoError(s, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	protos, err := filepath.Abs(filepath.Join(repository, "contract", "proto"))
	require.NoError(s, err)

	p := &process{Cmd: exec.Command("node", "shelf.mjs"), t: s.T, ended: make(chan error, 1)}
	p.Dir = dir
	p.Env = append(os.Environ(), "DATABASE_URL="+s.login, "NATS_URL="+s.nats, "NATS_USER=shelf", "NATS_PASSWORD="+password("shelf"),
		"PROTO_ROOT="+protos, "LEASE_SECONDS=3")
	p.Env = append(p.Env, env...)
	var problems bytes.Buffer
	p.Stderr = &problems
	out, err := p.StdoutPipe()
	require.NoError(s, err)
	require.NoError(s, p.Start())
	var said []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said = append(said, lines.Text())
		}
	}()
	gone := make(chan struct{})
	go func() {
		<-read
		p.ended <- p.Wait()
		close(gone)
	}()
	s.Cleanup(func() {
		_ = p.Process.Kill()
		<-gone
		s.Logf("the example said\n%s\n%s", strings.Join(said, "\n"), problems.String())
	})
	return p
}

// stop asks the example to end, and waits until it has.
func (p *process) stop() {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-p.ended:
		require.NoError(p.t, err)
	case <-time.After(soon):
		p.t.Fatal("the example does not stop")
	}
}

// becomes waits until a connector stands where it is said to, with its ended runs in their order.
func (s *shelf) becomes(id int32, status string, verdicts ...string) {
	s.Helper()
	testkit.Eventually(s.T, soon, func() error {
		var is string
		var are []string
		err := s.pool.QueryRow(ctx, `SELECT c.status, ARRAY(SELECT concat_ws(': ', r.status, r.reason) FROM runs r
			WHERE r.connector_id = c.id ORDER BY r.completed_at) FROM connectors c WHERE c.id = $1`, id).Scan(&is, &are)
		if err == nil && (is != status || fmt.Sprint(are) != fmt.Sprint(verdicts)) {
			err = fmt.Errorf("%s with %q, want %s with %q", is, are, status, verdicts)
		}
		return err
	})
}

// due has a connector's slot pass.
func (s *shelf) due() {
	s.Helper()
	movestest.Force(s.T, s.pool, `UPDATE connectors SET next_sync_at = now(), slot_at = now() WHERE id = $1`, s.id)
	s.exec(`SELECT pg_notify('connectors_due', '')`)
}

func (s *shelf) documents() string {
	s.Helper()
	return ask[string](s.database, `SELECT coalesce(string_agg(concat_ws(' ', source_id, status, version_token), ', ' ORDER BY source_id), '')
		FROM documents WHERE connector_id = $1 AND status <> 'deleted'`, s.id)
}

func (s *shelf) finds(text string) string {
	s.Helper()
	hits, err := semantic.NewSearcher(s.pool, config.Qdrant{}).Search(ctx, semantic.Reader{UserID: 1}, text, 1)
	require.NoError(s.T, err)
	if len(hits) == 0 {
		return ""
	}
	return hits[0].SourceID
}

// long is a book that does not fit into one message.
func long() string {
	var text strings.Builder
	for i := range 100 {
		text.WriteString(strings.Repeat(fmt.Sprintf("paragraph %d of a long book. ", i), 140) + "\n\n")
	}
	return text.String() + "the last words name a cormorant"
}

func TestASubscriberInJavaScriptKeepsAShelfInSync(t *testing.T) {
	s := newShelf(t, map[string]string{"moby": "a whale swims", "emma": "a lady rides", "tome": long()})
	p := s.start()
	s.becomes(s.id, "ACTIVE", "completed")
	require.Equal(t, fmt.Sprintf("emma stored 12, moby stored 13, tome stored %d", len(long())), s.documents())
	require.Equal(t, "moby", s.finds("whale"))
	require.Equal(t, "tome", s.finds("cormorant"), "in the second part")
	require.Equal(t, int64(4), ask[int64](s.database, `SELECT total FROM runs WHERE connector_id = $1`, s.id), "two books, and one of two parts")
	require.Equal(t, map[string]int{"emma": 1, "moby": 1, "tome": 1}, s.fetched())

	s.put("emma", "a lady rides a heron")
	s.put("zoo", "an okapi")
	s.remove("moby")
	s.due()
	s.becomes(s.id, "ACTIVE", "completed", "completed")
	require.Equal(t, map[string]int{"emma": 1, "zoo": 1}, s.fetched(), "nothing else was fetched")
	require.Equal(t, fmt.Sprintf("emma stored 20, tome stored %d, zoo stored 8", len(long())), s.documents())
	require.Equal(t, "emma", s.finds("heron"))
	require.NotEqual(t, "moby", s.finds("whale"))

	s.due()
	s.becomes(s.id, "ACTIVE", "completed", "completed", "skipped: nothing had changed")
	require.Empty(t, s.fetched())
	require.NotZero(t, ask[time.Time](s.database, `SELECT moves.trigger_sync($1)`, s.id))
	s.becomes(s.id, "ACTIVE", "completed", "completed", "skipped: nothing had changed", "skipped: nothing had changed")
	require.Empty(t, s.fetched(), "a user asked for it, and nothing has changed")
	s.exec(`UPDATE documents SET version_token = '' WHERE source_id = 'emma'`) // as dlq replay does
	s.due()
	s.becomes(s.id, "ACTIVE", "completed", "completed", "skipped: nothing had changed", "skipped: nothing had changed", "completed")
	require.Equal(t, map[string]int{"emma": 1}, s.fetched())
	p.stop()
}

func TestASubscriberInJavaScriptSaysWhatIsWrong(t *testing.T) {
	s := newShelf(t, map[string]string{"moby": "a whale swims"})
	s.start()
	s.becomes(s.id, "ACTIVE", "completed")
	bad := s.add(map[string]string{"uri": s.library.url})
	s.becomes(bad, "ERROR", "failed: permanent failure")
	require.Equal(t, "config.url must be the library's URL: change the connector's config",
		ask[string](s.database, `SELECT status_message FROM connectors WHERE id = $1`, bad))
	require.True(t, ask[bool](s.database, `SELECT next_sync_at IS NULL FROM connectors WHERE id = $1`, bad))
	gone := s.add(map[string]string{"url": s.library.url + "/nowhere"})
	s.becomes(gone, "ERROR", "failed: permanent failure")

	conn, js, err := connect.Once(s.nats, access("root"))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	_, err = js.Publish(ctx, "connector.sync.shelf", []byte("\xff no protobuf"))
	require.NoError(t, err)
	letters, err := js.Stream(ctx, "DEAD_LETTERS")
	require.NoError(t, err)
	var letter *jetstream.RawStreamMsg
	testkit.Eventually(t, soon, func() error {
		letter, err = letters.GetLastMsgForSubject(ctx, "dlq.connector.sync.shelf")
		return err
	})
	require.Equal(t, "\xff no protobuf", string(letter.Data))
	require.NotEmpty(t, letter.Header.Get("Echomind-Reason"))
}

func manyBooks() map[string]string {
	books := map[string]string{}
	for i := range 15 {
		books[fmt.Sprintf("book%02d", i)] = fmt.Sprint("the text of book ", i)
	}
	return books
}

// waits until the example has asked for the book that is lent, with a checkpoint behind it.
func (s *shelf) waits() {
	s.Helper()
	select {
	case <-s.asked:
	case <-time.After(soon):
		s.Fatal("the example does not ask for the book")
	}
	testkit.Eventually(s.T, soon, func() error {
		if !ask[bool](s.database, `SELECT coalesce(state ->> 'sent' = 'book09', false) FROM connectors WHERE id = $1`, s.id) {
			return errors.New("no checkpoint was passed")
		}
		return nil
	})
}

func TestASubscriberInJavaScriptThatIsKilledIsRescuedAndGoesOnFromItsCheckpoint(t *testing.T) {
	s := newShelf(t, manyBooks())
	s.lend("book12")
	killed := s.start()
	s.waits()
	require.NoError(t, killed.Process.Kill())
	require.Error(t, <-killed.ended)
	s.bringBack()
	s.start()
	s.becomes(s.id, "ACTIVE", "failed: worker lost", "completed")
	require.Equal(t, 15, strings.Count(s.documents(), "stored"))
	fetched := s.fetched()
	require.Equal(t, 1, fetched["book00"])
	require.Equal(t, 1, fetched["book09"])
	require.LessOrEqual(t, fetched["book10"], 2, "behind the checkpoint: stored, or fetched again")
	require.Equal(t, 2, fetched["book12"])
}

func TestASubscriberInJavaScriptThatTakesTooLongGoesOnFromWhatItHasSent(t *testing.T) {
	s := newShelf(t, manyBooks())
	s.lend("book12")
	s.start("LONGEST_SECONDS=2")
	s.waits()
	testkit.Eventually(s.T, soon, func() error {
		if !ask[bool](s.database, `SELECT EXISTS (SELECT FROM runs WHERE connector_id = $1 AND status = 'failed'
			AND reason = 'took too long' AND error_message = 'it took longer than 2 s' AND checkpoint_no > 0)`, s.id) {
			return errors.New("no run was cut")
		}
		return nil
	})
	require.Zero(t, ask[int](s.database, `SELECT failure_count FROM connectors WHERE id = $1`, s.id))
	s.bringBack()
	testkit.Eventually(s.T, soon, func() error {
		if status := ask[string](s.database, `SELECT status FROM connectors WHERE id = $1`, s.id); status != "ACTIVE" {
			return errors.New(status)
		}
		return nil
	})
	require.Equal(t, 15, strings.Count(s.documents(), "stored"))
	require.Equal(t, 1, s.fetched()["book09"], "what was sent is stored")
}

func TestASubscriberInJavaScriptHandsBackWhenItIsAskedToStop(t *testing.T) {
	s := newShelf(t, manyBooks())
	s.lend("book12")
	first := s.start()
	s.waits()
	first.stop()
	s.becomes(s.id, "PENDING", "superseded: released")
	require.Zero(t, ask[int](s.database, `SELECT failure_count FROM connectors WHERE id = $1`, s.id))
	s.bringBack()
	s.start()
	s.becomes(s.id, "ACTIVE", "superseded: released", "completed")
	require.Equal(t, 1, s.fetched()["book09"])
}

// Another process is at work with the run: the first one, frozen until its lease has run out, stops by itself and spoils nothing.
func TestASubscriberInJavaScriptThatWasTakenForDeadChangesNothing(t *testing.T) {
	s := newShelf(t, manyBooks())
	s.lend("book12")
	frozen := s.start()
	s.waits()
	require.NoError(t, frozen.Process.Signal(syscall.SIGSTOP))
	second := s.start()
	s.bringBack()
	s.becomes(s.id, "ACTIVE", "failed: worker lost", "completed")
	require.NoError(t, frozen.Process.Signal(syscall.SIGCONT))
	s.due()
	s.becomes(s.id, "ACTIVE", "failed: worker lost", "completed", "skipped: nothing had changed")
	second.stop()
	frozen.stop()
	s.becomes(s.id, "ACTIVE", "failed: worker lost", "completed", "skipped: nothing had changed")
	require.Equal(t, 15, strings.Count(s.documents(), "stored"))
}
