package googledrive_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/googledrive"
)

// swelling serves contents of so many bytes, whatever is listed, and counts what is read of them.
type swelling struct {
	http.RoundTripper
	size int64
	read *atomic.Int64
}

func (s swelling) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if err == nil && (strings.Contains(r.URL.RawQuery, "alt=media") || strings.HasSuffix(r.URL.Path, "/export")) {
		_ = resp.Body.Close()
		resp.Body, resp.ContentLength = io.NopCloser(&counted{s.size, s.read}), -1
	}
	return resp, err
}

type counted struct {
	left int64
	read *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), c.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	c.left -= n
	c.read.Add(n)
	return int(n), nil
}

// Room is taken for what is listed.
func TestAFileThatIsMuchLargerThanListedIsNotRead(t *testing.T) {
	const each = 1 << 20 // what its bound, and the buffers of a download, are well below
	f := newFixture(t)
	var ids []string
	for i := range 4 {
		ids = append(ids, f.File(root, fmt.Sprint(i, ".txt"), "text/plain", "ten bytes."))
	}
	target := f.File("", "target.txt", "text/plain", "ten bytes.")
	ids = append(ids, f.Shortcut(root, "s", target))
	var read atomic.Int64
	plain := f.opts.Client.Transport
	f.opts.Client.Transport = swelling{plain, 31 << 20, &read}
	f.cfg = googledrive.Config{MaxFileBytes: 32 << 20}
	f.sync()
	for _, id := range ids {
		require.Contains(t, f.store.text(id), "it has grown since it was listed: ")
		require.Contains(t, f.store.text(id), "listed were 10")
	}
	require.Less(t, read.Load(), int64(len(ids)*each))

	f.opts.Client.Transport = plain
	f.sync()
	for _, id := range ids {
		require.Equal(t, "ten bytes.", f.store.text(id), "it is read by a later sync")
	}
}

func TestAnExportIsReadAsFarAsGoogleExports(t *testing.T) {
	f := newFixture(t)
	doc := f.Doc(root, "D", "application/vnd.google-apps.document", "words")
	var read atomic.Int64
	f.opts.Client.Transport = swelling{f.opts.Client.Transport, 31 << 20, &read}
	f.cfg = googledrive.Config{MaxFileBytes: 32 << 20}
	f.sync()
	require.Contains(t, f.store.text(doc), "more than 10485760 bytes, which is what Google Drive exports")
	require.Less(t, read.Load(), int64(11<<20))
}

// growing has a file grow as soon as its content, cut short, has been served once.
type growing struct {
	http.RoundTripper
	grow func()
}

func (g *growing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.RawQuery, "alt=media") && g.grow != nil {
		_ = resp.Body.Close()
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader("cut")), -1
		g.grow()
		g.grow = nil
	}
	return resp, err
}

func TestAFileThatHasGrownBeyondItsRoomIsNotDownloadedAgain(t *testing.T) {
	f := newFixture(t)
	a := f.File(root, "a.txt", "text/plain", "ten bytes.")
	f.opts.Client.Transport = &growing{f.opts.Client.Transport, func() { f.Write(a, strings.Repeat("x", 1<<20)) }}
	f.sync()
	require.Equal(t, 2, f.Calls("media"), "the second is of the change that the same sync is told of")
	require.Len(t, f.store.text(a), 1<<20)
}
