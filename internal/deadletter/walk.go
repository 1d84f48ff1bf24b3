package deadletter

import (
	"context"
	"errors"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/echomind/sync/internal/broker"
)

const (
	// portion is how many letters' connectors are looked up at once.
	portion = 50
	// portionBytes is after how many bytes of payloads a portion ends: they are read from the broker, and not kept.
	portionBytes = 8 << 20
)

// SubjectForm is what a subject looks like, with * for one word of it and > for its rest.
var SubjectForm = regexp.MustCompile(`^(?:[A-Za-z0-9_-]+|\*)(?:\.(?:[A-Za-z0-9_-]+|\*))*(?:\.>)?$`)

// Filter says which letters are meant.
type Filter struct {
	// Subject is an original subject, which may hold the wildcards * and >; empty = any.
	Subject string
	// ConnectorID is whose they are; 0 = anybody's.
	ConnectorID int32
	// After is the id that they come after.
	After uint64
	// Is says of a letter whether it is meant; nil = each is.
	Is func(Letter) bool
}

// wire is the subject that the broker knows the letters by.
func (f Filter) wire() string {
	if f.Subject == "" {
		return subjectPrefix + ">"
	}
	return subjectPrefix + strings.TrimPrefix(f.Subject, subjectPrefix)
}

// ErrStream says that it was the stream that could not be read, and not Postgres.
var ErrStream = errors.New("the stream of dead letters cannot be read")

// unread is an error of the stream, in its own words.
type unread struct{ error }

func (u unread) Unwrap() error { return u.error }

func (unread) Is(target error) bool { return target == ErrStream }

// looked is what a look at some letters has found.
type looked struct {
	// letters are those of the filter, without their payloads.
	letters []Letter
	// after is the last that was looked at, ids are all that were, bytes is how large they are.
	after uint64
	ids   []uint64
	bytes int
	// isLast: there are no more.
	isLast bool
}

// look looks at up to most letters behind one, and at one at least; at no more when its time is over. No time: as long as it takes.
func look(ctx context.Context, stream *broker.Letters, runs Runs, f Filter, most int, until time.Time) (found looked, err error) {
	found.after = f.After
	var all []Letter
	for len(all) < most && found.bytes < portionBytes && (until.IsZero() || len(all) == 0 || time.Now().Before(until)) {
		raw, err := stream.Next(ctx, found.after+1, f.wire())
		if found.isLast = errors.Is(err, broker.ErrNoLetter); found.isLast {
			break
		}
		if err != nil {
			return found, unread{err}
		}
		found.after = raw.Sequence
		found.bytes += len(raw.Data)
		letter, _ := Read(raw)
		all, found.ids = append(all, letter), append(found.ids, letter.ID)
	}
	if err := Resolve(ctx, runs, all); err != nil {
		return found, err
	}
	for _, l := range all {
		if (f.ConnectorID == 0 || l.ConnectorID == f.ConnectorID) && (f.Is == nil || f.Is(l)) {
			found.letters = append(found.letters, l)
		}
	}
	return found, nil
}

// Walk yields the letters of a filter in the order in which they were given up, each with its connector where that can
// be told, without their payloads. It ends with those that there were at its beginning, or with an error.
func Walk(ctx context.Context, stream *broker.Letters, runs Runs, f Filter) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		for {
			found, err := look(ctx, stream, runs, f, portion, time.Time{})
			if err != nil {
				yield(Letter{}, err)
				return
			}
			for _, l := range found.letters {
				if !yield(l, nil) {
					return
				}
			}
			if found.isLast {
				return
			}
			f.After = found.after
		}
	}
}

// Portion is what a look at some letters has found.
type Portion struct {
	// Letters are those of the filter, without their payloads.
	Letters []Letter
	// Looked are all that were looked at, After is the last of them.
	Looked []uint64
	After  uint64
	// IsLast: there are no more.
	IsLast bool
}

// Some looks at up to most letters behind f.After, and at one at least; at no more when its time is over.
func Some(ctx context.Context, stream *broker.Letters, runs Runs, f Filter, most int, until time.Time) (Portion, error) {
	found, err := look(ctx, stream, runs, f, most, until)
	return Portion{found.letters, found.ids, found.after, found.isLast}, err
}
