package endtoend

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/googledrive"
	"github.com/echomind/sync/testonly/testkit"
)

// The figures of docs/performance.md are printed with CONNECTOR_FIGURES set; without it a small drive is synced.
func TestFiguresOfTheProgramThatSyncsAGoogleDrive(t *testing.T) {
	n, large := 200, os.Getenv("CONNECTOR_FIGURES") != ""
	if large {
		n = 10_000
	} else {
		t.Parallel() // figures are taken alone
	}
	s := newServed(t)
	var ids []string
	parent := ""
	for i := range n {
		if i%100 == 0 {
			parent = s.fake.Folder(s.root, fmt.Sprint("folder ", i/100))
		}
		content := fmt.Sprint(i, strings.Repeat(" some words of a text", 50+(i*37)%900)) // 1 to 20 KB
		ids = append(ids, s.fake.File(parent, fmt.Sprint(i, ".txt"), "text/plain", content))
	}
	s.connect(s.signIn.user())
	pid := s.startConnector().Pid

	require.Equal(t, "completed", s.trigger())
	took := s.took()
	s.holds()
	require.Equal(t, n, s.fake.Reads(""), "each content is read once")
	t.Logf("first sync: %d files in %v, %.0f documents/s, %d requests", n, took.Round(time.Millisecond), float64(n)/took.Seconds(), s.fake.Calls())
	if runtime.GOOS == "linux" { // others have no /proc
		t.Logf("peak memory of the connector: %d MB", peakMemory(t, pid)>>20)
		require.Less(t, peakMemory(t, pid), 200<<20)
	}

	s.fake.ResetCalls()
	asked := s.signIn.requests()
	for i := range 5 {
		s.fake.Write(ids[i*7], fmt.Sprint("changed ", i))
	}
	s.fake.Rename(ids[1], "renamed.txt")
	s.fake.Move(ids[2], s.root)
	s.fake.Trash(ids[3], true)
	s.fake.Delete(ids[4])
	s.fake.File(s.root, "new.txt", "text/plain", "new")
	require.Equal(t, "completed", s.trigger())
	t.Logf("10 changes: %v, %d requests, of which %d are contents; %d for an access token",
		s.took().Round(time.Millisecond), s.fake.Calls(), s.fake.Calls("media"), s.signIn.requests()-asked)
	require.Equal(t, 6, s.fake.Calls("media"), "the contents that are new")
	require.Equal(t, 7, s.fake.Calls(), "and one page of changes")
	s.holds()
}

// A listing that is killed in the middle goes on from its last checkpoint: less than a page is fetched twice.
func TestAKilledProgramsFirstListingGoesOn(t *testing.T) {
	n := 4_000
	if os.Getenv("CONNECTOR_FIGURES") != "" {
		n = 100_000
	} else {
		t.Parallel()
	}
	s := newServed(t)
	parent := ""
	for i := range n {
		if i%1000 == 0 {
			parent = s.fake.Folder(s.root, fmt.Sprint("folder ", i/1000))
		}
		s.fake.File(parent, fmt.Sprint(i, ".txt"), "text/plain", fmt.Sprint("the text of ", i))
	}
	s.connect(s.signIn.user())
	doomed := make(chan *os.Process, 1)
	var once sync.Once
	s.fake.Before(func(kind, _ string) {
		if kind == "media" && s.fake.Reads("") >= n*6/10 {
			once.Do(func() { _ = (<-doomed).Kill() })
		}
	})
	doomed <- s.startConnector()
	s.dispatch()
	testkit.Eventually(t, soon, func() error {
		if len(doomed) > 0 {
			return errors.New("the listing is not there yet")
		}
		return nil
	})
	first := s.fake.Reads("")
	s.startConnector()
	require.Equal(t, "completed", s.verdict(s.dispatch()))
	s.holds()
	twice := s.fake.Reads("") - n
	t.Logf("%d files, killed after %d: %d were fetched twice", n, first, twice)
	// The page that was being fetched, and one that was not stored yet; less than two thirds of what was fetched in any case.
	require.Less(t, twice, 2*googledrive.DefaultPageSize)
}

// startConnector starts the program; a provider's usual rate would be all that is measured.
func (s *served) startConnector() *os.Process {
	s.Helper()
	return s.start("connector", "SECRETS_KEY="+s.key, "CONNECTOR_GOOGLE_DRIVE_URL="+s.fake.URL, "CONNECTOR_GOOGLE_TOKEN_URL="+s.signIn.URL,
		"CONNECTOR_GOOGLE_RATE=10000", "CONNECTOR_GOOGLE_BURST=100000")
}

// holds compares what is stored with the drive, but for the texts: chunks overlap here.
func (s *served) holds() {
	s.Helper()
	want, got := map[string]string{}, map[string]string{}
	for id, f := range s.fake.Tree(s.root) {
		want[id] = f.Name
	}
	for id, d := range s.documents() {
		require.Empty(s, d.Err)
		got[id] = d.Title
	}
	require.Equal(s, want, got)
}

// took is how long the last run took, from its trigger to its verdict, by Postgres's clock.
func (l *line) took() time.Duration {
	l.Helper()
	var seconds float64
	require.NoError(l, l.pool.QueryRow(l.Context(), `SELECT extract(epoch FROM completed_at - started_at)::float8 FROM scheduler_runs
		WHERE connector_id = $1 ORDER BY started_at DESC LIMIT 1`, l.id).Scan(&seconds))
	return time.Duration(seconds * float64(time.Second))
}

// peakMemory is the most memory, in bytes, that a process has had resident.
func peakMemory(t *testing.T, pid int) (size int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, of, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	_, err = fmt.Sscanf(of, "%d kB", &size)
	require.NoError(t, err)
	return size << 10
}
