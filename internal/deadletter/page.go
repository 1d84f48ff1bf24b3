package deadletter

import (
	"context"
	"time"

	"github.com/echomind/sync/internal/broker"
)

const (
	// One page is looked for in so many letters, in so many bytes of them, and for so long. A page of a filter that few
	// letters match may be short, or empty, and still have a next one.
	pageLetters = 1000
	pageBytes   = 32 << 20
	pageTime    = 3 * time.Second
	// pageTexts is how many bytes the texts of a page have together, or those of its first letter.
	pageTexts = 128 << 10
)

// Page reads up to most letters of a filter. next is the id that the next page comes after; 0: there are no more.
func Page(ctx context.Context, stream *broker.Letters, runs Runs, f Filter, most int) (page []Letter, next uint64, err error) {
	until, texts := time.Now().Add(pageTime), 0
	for count, bytes := 0, 0; ; {
		rows := portion
		if f.ConnectorID == 0 && f.Is == nil { // each that is looked at is one of the page
			rows = min(rows, most-len(page)+1)
		}
		found, err := look(ctx, stream, runs, f, rows, until)
		if err != nil {
			return nil, 0, err
		}
		for _, l := range found.letters {
			texts += len(l.Subject) + len(l.Reason) + len(l.Session) + len(l.SourceID)
			if len(page) == most || len(page) > 0 && texts > pageTexts {
				return page, page[len(page)-1].ID, nil
			}
			page = append(page, l)
		}
		if found.isLast {
			return page, 0, nil
		}
		count, bytes, f.After = count+len(found.ids), bytes+found.bytes, found.after
		if count >= pageLetters || bytes >= pageBytes || !time.Now().Before(until) {
			return page, found.after, nil
		}
	}
}
