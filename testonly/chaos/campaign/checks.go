package campaign

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/fault"
	"github.com/echomind/sync/testonly/chaos/world"
)

const askTimeout = 30 * time.Second

func violated(f *audit.Finding, what string) {
	f.Violations = append(f.Violations, what)
	f.Violated++
}

// drained waits until nothing is queued any more.
func drained(ctx context.Context, w *world.World, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		queued := uint64(0)
		for _, name := range []string{topology.SyncStream, topology.DocumentStream} {
			stream, err := w.Stream.Stream(ctx, name)
			if err != nil {
				return wrap("ask for stream "+name, err)
			}
			queued += stream.CachedInfo().State.Msgs
		}
		if queued == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d messages are still queued after %s", queued, within)
		case <-time.After(settlePoll):
		}
	}
}

func atRest(unsettled error) audit.Finding {
	f := audit.Finding{
		Promise: 1, Name: "everything comes to rest", Checked: 1,
		How: "once everything is mended nothing stays due, PENDING, SYNCING, open or queued",
	}
	if unsettled != nil {
		violated(&f, unsettled.Error())
	}
	return f
}

// folders compares what is stored of the file and web connectors with the folders and the sites.
func folders(ctx context.Context, w *world.World) audit.Finding {
	f := audit.Finding{
		Promise: 5, Name: "files and pages", How: "the stored text of every file and page is its present text",
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for i := range sites {
		for k := range 5 {
			name := fmt.Sprintf("%d.md", k)
			text, err := os.ReadFile(filepath.Join(w.Files, fmt.Sprint(i), name))
			if err != nil {
				violated(&f, err.Error())
				continue
			}
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			compare(ctx, w, &f, fmt.Sprint("file ", i), "%"+name, lines[len(lines)-1])
			page := w.Site.Pages()[sitePath(i, fmt.Sprintf("%d.html", k))]
			_, rest, _ := strings.Cut(page, "<p>")
			paragraph, _, _ := strings.Cut(rest, "</p>")
			compare(ctx, w, &f, fmt.Sprint("web ", i), fmt.Sprintf("%%/%d.html", k), paragraph)
		}
	}
	return f
}

// compare looks for a text in what is stored of one document of a connector.
func compare(ctx context.Context, w *world.World, f *audit.Finding, connector, sourceID, text string) {
	f.Checked++
	var stored string
	err := w.Pool.QueryRow(ctx, `
		SELECT coalesce(string_agg(k.text, ' ' ORDER BY k.no), '')
		FROM connectors c JOIN documents d ON d.connector_id = c.id
		LEFT JOIN chunks k ON k.try_id = d.try_id AND k.first_no = d.first_no AND k.document_id = d.id
		WHERE c.name = $1 AND d.source_id LIKE $2`, connector, sourceID).Scan(&stored)
	switch {
	case err != nil:
		violated(f, err.Error())
	case !strings.Contains(stored, text):
		violated(f, fmt.Sprintf("%s %s: %q is not in %q", connector, sourceID, text, stored))
	}
}

// deadLetters checks that only what the harness has poisoned was given up.
func deadLetters(ctx context.Context, w *world.World) audit.Finding {
	f := audit.Finding{
		Promise: 3, Name: "dead letters", How: "only messages that nobody can read, or that kill, are given up",
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, err := w.Stream.Stream(ctx, topology.DeadLetterStream)
	if err != nil {
		violated(&f, err.Error())
		return f
	}
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		if err != nil {
			continue // wiped meanwhile
		}
		f.Checked++
		if why := unexplained(msg); why != "" {
			violated(&f, why)
		}
	}
	return f
}

func unexplained(msg *jetstream.RawStreamMsg) string {
	reason := msg.Header.Get(topology.HeaderReason)
	unreadable := len(msg.Data) == 32 // what messages.go says
	if unreadable || msg.Header.Get(fault.HeaderForged) != "" || strings.Contains(string(msg.Data), "chaos:kill") {
		return ""
	}
	return fmt.Sprintf("dead letter %d on %s was given up: %s", msg.Sequence, msg.Subject, reason)
}
