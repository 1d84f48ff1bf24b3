package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/wire"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/sdk/worker/internal/dbgen"
)

const (
	queryTimeout = 10 * time.Second
	waitsTimeout = 2 * time.Second
	knownPage    = 1000 // with memos up to 8 MiB
)

// Run is one sync of one connector, as its handler sees it. Its methods are safe for concurrent use, and wait
// where one of our own servers is away; after an error of theirs the run is over.
type Run struct {
	request   *trigger
	try       lifecycle.Try
	clock     *workClock
	log       *slog.Logger
	queries   *dbgen.Queries
	lifecycle *lifecycle.Lifecycle
	outbox    *outbox
	locks     *locks
	patience  time.Duration // with one question to Postgres
	unchanged atomic.Int64
	notes     atomic.Int64           // messages that carry no document
	job       atomic.Pointer[JobRun] // nil where the run stores documents
	said      said

	waits      sync.Mutex // held while it is decided, and written, that the run waits or does so no more
	waitsUntil time.Time  // the end of the wait that is written down

	mu             sync.Mutex
	newState       *structpb.Struct
	lastCheckpoint checkpoint
	partial        bool
	remark         string
	inListing      *listing // nil until it is asked for; see carried
}

// Request is the message that asked for this sync, without its Config: that is decoded by Run.Config, also into a json.RawMessage
// or a map.
func (r *Run) Request() *internalpb.ConnectorSyncRequest { return &r.request.ConnectorSyncRequest }

// Try is this pick-up of the run. A handler that writes to Postgres itself names both of its parts in every write, so that
// nothing is changed once the run is somebody else's.
func (r *Run) Try() lifecycle.Try { return r.try }

// Log carries the run's identifiers.
func (r *Run) Log() *slog.Logger { return r.log }

// Config decodes the connector's configuration into v, a pointer to a struct with json tags. A field of another type is
// a permanent error that names it. A field that v does not know is a transient one: during a rollout a newer worker may
// know it, and a permanent failure would need a person to mend it.
func (r *Run) Config(v any) error {
	if err := decodeJSON("config", r.request.config, v, false); err != nil {
		return Permanent(err)
	}
	// What decodes, but not strictly, has a field that v does not know. The library's error says so in its text alone.
	again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
	if err := decodeJSON("config", r.request.config, again, true); err != nil {
		return fmt.Errorf("%w: either the configuration has a typo, or this worker is older than the configuration", err)
	}
	return nil
}

// ListingPartial says that the source was not listed to its end. A run that continues from a checkpoint after this
// keeps it, unless it begins a listing of its own.
//
// After the first whole listing of a configuration the documents that were stored under an earlier one, and not shown, are
// deleted. A run is whole where it began with an empty State, or called BeginListing, or goes on from a checkpoint of such a
// run; not where it, or the run that it goes on from, called ListingPartial, nor where it returns Skipped or stores nothing,
// nor where its listing goes on. One that stores nothing is whole where it goes on from a checkpoint of a whole run that has stored something: there was
// nothing left. So a run that reads a list of changes is never whole.
func (r *Run) ListingPartial() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = true
}

// Remark is what the user should know of a run that completes all the same: that it left something out, why, and what to do. The
// ledger shows the last remark as the run's reason, cut at 1,000 bytes.
func (r *Run) Remark(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remark = secret.Text(text)
}

// Warn is what the user should know of a run that goes on all the same, such as what it left out: `runs show` lists it. The ledger keeps the
// first 100, each as one line cut at 500 characters. It is written down before the run ends, a job's with each heartbeat; where Postgres does not
// take it in time, the run ends without it.
func (r *Run) Warn(text string) { r.said.warn(text) }

// longWait is the shortest wait that is written down.
const longWait = 10 * time.Second

// Waits begins a wait that the source has asked for, and returns at once. The run's work stands still until wait has passed, or until the handler goes on
// and calls over: that time does not count towards Config.MaxRunMinutes. Waits may overlap. With this wait the run might wait for its source for more than
// an hour altogether. Then Waits returns an error of Postponed: the handler returns it, wrapped or not, and the run is put off.
//
// `echomind why` shows message and the time: message says who asked, as of Postponed. A wait of less than ten seconds is not written
// down, nor is a wait that ends with a written one, or before it, so that many requests that wait together cost one write. When the last wait is over
// before its time, the written one is taken back: a stop would put the run off until then. A write that Postgres does not take is not tried again.
func (r *Run) Waits(ctx context.Context, wait time.Duration, message string) (over func(), err error) {
	goesOn, mayWait := r.clock.waitAsAsked(wait)
	if !mayWait {
		return nil, Postponed(wait, errors.New(message))
	}
	r.saysThatItWaits(ctx, wait, message)
	return func() {
		goesOn()
		r.waitsNoMore(ctx)
	}, nil
}

// waitsNoMore takes back what is written down, unless the run waits still, or is being stopped while it waited.
func (r *Run) waitsNoMore(ctx context.Context) {
	r.waits.Lock()
	defer r.waits.Unlock()
	if ctx.Err() != nil || r.outbox.handling.Err() != nil || r.clock.isAsked() {
		return
	}
	if time.Until(r.waitsUntil) < time.Second {
		return
	}
	r.waitsUntil = time.Time{}
	err := deadline.Do(ctx, "worker.waits", waitsTimeout, func(ctx context.Context) error { return r.lifecycle.Waits(ctx, r.try, 0, "") })
	if err != nil && ctx.Err() == nil {
		r.log.Info("it is not written down that the sync waits for its source no more", "err", err)
	}
}

func (r *Run) saysThatItWaits(ctx context.Context, wait time.Duration, message string) {
	until := time.Now().Add(wait)
	r.waits.Lock()
	defer r.waits.Unlock()
	if wait < longWait || until.Before(r.waitsUntil.Add(longWait/2)) {
		return
	}
	r.waitsUntil = until
	err := deadline.Do(ctx, "worker.waits", waitsTimeout, func(ctx context.Context) error {
		return r.lifecycle.Waits(ctx, r.try, time.Until(until), message)
	})
	if err != nil && ctx.Err() == nil {
		r.log.Info("it is not written down that the sync waits for its source", "err", err)
	}
}

// Put stores a new or changed document, or says why it could not be read. It returns ErrDocument for one whose SourceID,
// VersionToken, ContentHash, Links or Memo break a limit. A text that is too large to be stored (Oversize) fails as a document,
// with the reason; Put returns nil then.
//
// It waits where as much of the run as Config.Credit says is sent and not stored yet, so that others' documents get their turn; that does
// not count as the run's work.
//
// A handler waits for its goroutines before it returns. A call of theirs that is still under way then is either sent before
// the run ends, or refused with an error like one that begins later: the run may complete without what is refused. A call
// whose own ctx ends before its turn fails the run, which takes nothing more; a document whose turn has come is sent all the same. The same holds for Touch,
// Delete, Seen and Checkpoint.
func (r *Run) Put(ctx context.Context, d Document) error {
	all, err := parts(d)
	if err != nil {
		return err
	}
	err = r.outbox.send(ctx, len(all), weightOf(int(all[0].ChunkCount), 0), func(first int64) []*internalpb.DocumentProcessRequest {
		failpoint.At("worker.fetching")
		listing, messages := r.currentListing(), make([]*internalpb.DocumentProcessRequest, len(all))
		for i, part := range all {
			part.FirstNo, part.Listing = first, listing
			messages[i] = r.envelope(first + int64(i))
			messages[i].Body = &internalpb.DocumentProcessRequest_Part{Part: part}
		}
		return messages
	})
	if err != nil {
		return fmt.Errorf("send %q: %w", d.SourceID, err)
	}
	return nil
}

// Touch updates the title, URL, version token, links and Memo of a document whose content (its ContentHash) stands as
// it is stored; its chunks stay. Put a document again that this run has put: what a run sends is stored in any order, so that the
// content to keep may not be there yet, and the document fails, until the next run fetches it.
func (r *Run) Touch(ctx context.Context, d Document) error {
	d.Chunks, d.Err = nil, ""
	all, err := parts(d)
	if err != nil {
		return err
	}
	err = r.sendOne(ctx, func(m *internalpb.DocumentProcessRequest) {
		all[0].KeepChunks, all[0].FirstNo, all[0].Listing = true, m.Number, r.currentListing()
		m.Body = &internalpb.DocumentProcessRequest_Part{Part: all[0]}
	})
	if err != nil {
		return fmt.Errorf("touch %q: %w", d.SourceID, err)
	}
	return nil
}

// Delete removes a document that the source no longer has. Call it only after a listing that ended without error.
func (r *Run) Delete(ctx context.Context, sourceID string) error {
	if err := checkIdentity(Document{SourceID: sourceID}); err != nil {
		return err
	}
	err := r.sendOne(ctx, func(m *internalpb.DocumentProcessRequest) {
		m.Body = &internalpb.DocumentProcessRequest_Deletion{
			Deletion: &internalpb.DocumentDeletion{SourceId: sourceID},
		}
	})
	if err != nil {
		return fmt.Errorf("delete %q: %w", sourceID, err)
	}
	return nil
}

// Unchanged counts n documents for the ledger that stand as they are stored. A negative n is not counted, and the log says so.
func (r *Run) Unchanged(n int) {
	if n < 0 {
		r.log.Warn("Unchanged: n must be 0 or more; it is not counted, and the ledger says too little", "n", n)
		return
	}
	r.unchanged.Add(int64(n))
}

// sendOne sends one light message, whose body is filled in once it has its number.
func (r *Run) sendOne(ctx context.Context, fill func(*internalpb.DocumentProcessRequest)) error {
	return r.sendWeighted(ctx, weightOf(0, 0), fill)
}

func (r *Run) sendWeighted(ctx context.Context, weight int64, fill func(*internalpb.DocumentProcessRequest)) error {
	return r.outbox.send(ctx, 1, weight, func(no int64) []*internalpb.DocumentProcessRequest {
		m := r.envelope(no)
		fill(m)
		return []*internalpb.DocumentProcessRequest{m}
	})
}

func (r *Run) envelope(number int64) *internalpb.DocumentProcessRequest {
	return &internalpb.DocumentProcessRequest{
		ConnectorId:     r.request.ConnectorId,
		ChunkingSession: r.request.ChunkingSession,
		Try:             r.try.ID.String(),
		ConfigVersion:   r.request.ConfigVersion,
		Number:          number,
	}
}

// reason is what the ledger says of a run that did not fail; r.mu is held. A run that brought nothing says why it is skipped.
func (r *Run) reason(end error) string {
	reason := r.remark
	if r.outbox.total() == r.notes.Load() {
		reason = skipReason(end)
		if r.remark != "" {
			reason += "; " + r.remark
		}
	}
	return clip(reason, maxReasonBytes)
}

// complete publishes sync completed and returns its place in the stream. end is what the handler returned.
func (r *Run) complete(end error) (uint64, error) {
	r.mu.Lock()
	m := r.envelope(0)
	m.Body = &internalpb.DocumentProcessRequest_Completed{Completed: &internalpb.SyncCompleted{
		Total: r.outbox.total(), NewState: r.finalState(), ListingWhole: r.endsWhole(end),
		Unchanged: r.unchanged.Load(), Reason: r.reason(end),
	}}
	r.mu.Unlock()
	msg, err := r.outbox.encode(m)
	if err != nil {
		return 0, err
	}
	return r.outbox.publish(m.Number, msg)
}

func decodeStruct(name string, s *structpb.Struct, v any) error {
	data, err := wire.JSON(s)
	if err != nil {
		return err
	}
	return decodeJSON(name, data, v, false)
}

func decodeJSON(name string, data []byte, v any, strict bool) error {
	if data == nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if strict {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Patiently asks Postgres a handler's question for which the kit has no method, until it is answered or the run has
// ended, even if ctx does not end with the run. Postgres away, and a row that somebody holds, are waits, which do not count
// as the run's work. name is what the log calls the question. It is asked again after an answer that was lost.
func (r *Run) Patiently(ctx context.Context, name string, call func(context.Context) error) error {
	run := r.outbox.handling
	if run.Err() != nil {
		return context.Cause(run)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(run, func() { cancel(context.Cause(run)) })()
	defer r.clock.wait(time.Now())()
	return persist(ctx, r.log, name, r.patience, func(err error) bool {
		return postgres.Unavailable(err) || postgres.Locked(err)
	}, call)
}

// persist repeats a call to Postgres until its error is no wait any more, or ctx has ended, and then once more.
func persist(
	ctx context.Context, log *slog.Logger, name string, within time.Duration, isWait func(error) bool,
	call func(context.Context) error,
) error {
	for try := range pauses.Tries(ctx) {
		err := deadline.Do(ctx, name, within, call)
		if !isWait(err) || ctx.Err() != nil {
			return err
		}
		if try == 1 {
			log.Warn("a sync waits for Postgres", "err", err)
		}
	}
	return deadline.Do(ctx, name, within, call) // what the last try did may not be known
}
