package deadletter

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/broker"
)

// page is how many letters' connectors are looked up at once.
const page = 50

// Filter says which letters are meant.
type Filter struct {
	// Subject is an original subject, which may hold the wildcards * and >; empty = any.
	Subject string
	// ConnectorID is whose they are; 0 = anybody's.
	ConnectorID int32
	// After is the id that they come after.
	After uint64
}

// wire is the subject that the broker knows the letters by.
func (f Filter) wire() string {
	if f.Subject == "" {
		return subjectPrefix + ">"
	}
	return subjectPrefix + strings.TrimPrefix(f.Subject, subjectPrefix)
}

// Walk yields the letters of a filter in the order in which they were given up, each with its connector where that can
// be told, without their payloads. It ends with those that there were at its beginning, or with an error.
func Walk(ctx context.Context, stream *broker.Letters, pool *pgxpool.Pool, f Filter) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		for after, more := f.After, true; more; {
			var letters []Letter
			for len(letters) < page {
				raw, err := stream.Next(ctx, after+1, f.wire())
				if more = !errors.Is(err, broker.ErrNoLetter); !more {
					break
				}
				if err != nil {
					yield(Letter{}, err)
					return
				}
				after = raw.Sequence
				letter, _ := Read(raw)
				letters = append(letters, letter)
			}
			if err := Resolve(ctx, pool, letters); err != nil {
				yield(Letter{}, err)
				return
			}
			for _, l := range letters {
				if f.ConnectorID != 0 && l.ConnectorID != f.ConnectorID {
					continue
				}
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}
