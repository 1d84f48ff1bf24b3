package tenant

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/testonly/chaos/fault"
)

const (
	// lie is a word that stands in every forged document and nowhere else.
	lie = "mallorywashere"
	// forger is a type of connectors that nobody serves but the forger.
	forger = "forger"
	// pace is the time between two forgeries.
	pace         = 20 * time.Millisecond
	forgeTimeout = 5 * time.Second
)

// envelope says which run a message belongs to. Everything of a run but its try may become known: the try is its fence.
type envelope struct {
	connector    int32
	session, try string
	version      int64
	number       int64
}

// lies are what a forger makes of another's run and of a run of its own.
var lies = []func(theirs, own envelope) envelope{
	func(theirs, _ envelope) envelope { theirs.try = uuid.NewString(); return theirs },
	func(theirs, _ envelope) envelope { theirs.try = theirs.session; return theirs },
	func(theirs, _ envelope) envelope { theirs.try = ""; return theirs },
	func(theirs, own envelope) envelope { theirs.try = own.try; return theirs },
	func(theirs, own envelope) envelope { theirs.session, theirs.try = own.session, own.try; return theirs },
	func(theirs, own envelope) envelope { own.connector = theirs.connector; return own },
	func(theirs, own envelope) envelope { own.connector, own.version = theirs.connector, 0; return own },
	func(theirs, own envelope) envelope { own.session = theirs.session; return own },
	func(theirs, own envelope) envelope { own.version = theirs.version; return own },
	func(_, own envelope) envelope { own.number = math.MaxInt64; return own },
	func(theirs, _ envelope) envelope {
		theirs.try, theirs.number = uuid.NewString(), math.MinInt64
		return theirs
	},
	func(theirs, _ envelope) envelope { theirs.session, theirs.try = "no session", "no try"; return theirs },
}

// bodies are what the message would do to a document of another's, and to its run.
var bodies = []func(*internalpb.DocumentProcessRequest, string){
	func(m *internalpb.DocumentProcessRequest, document string) {
		m.Body = &internalpb.DocumentProcessRequest_Part{Part: &internalpb.DocumentPart{
			SourceId: document, Title: lie, Url: "https://" + lie + ".example", MediaType: "text/plain", ContentHash: lie, VersionToken: lie,
			FirstNo: m.Number, Parts: 1, Chunks: []*internalpb.Chunk{{Text: lie + " in place of what stood here", End: 30}}, ChunkCount: 1,
		}}
	},
	func(m *internalpb.DocumentProcessRequest, document string) {
		m.Body = &internalpb.DocumentProcessRequest_Part{Part: &internalpb.DocumentPart{
			SourceId: document, Title: lie, FirstNo: m.Number, Parts: 1, Error: lie,
		}}
	},
	func(m *internalpb.DocumentProcessRequest, document string) {
		m.Body = &internalpb.DocumentProcessRequest_Deletion{Deletion: &internalpb.DocumentDeletion{SourceId: document}}
	},
	func(m *internalpb.DocumentProcessRequest, _ string) {
		m.Number = 0
		m.Body = &internalpb.DocumentProcessRequest_Completed{Completed: &internalpb.SyncCompleted{ListingWhole: true}}
	},
	func(m *internalpb.DocumentProcessRequest, _ string) {
		m.Body = &internalpb.DocumentProcessRequest_Checkpoint{Checkpoint: &internalpb.SyncCheckpoint{}}
	},
	func(m *internalpb.DocumentProcessRequest, document string) {
		m.Body = &internalpb.DocumentProcessRequest_Seen{Seen: &internalpb.DocumentsSeen{SourceIds: []string{document}, Listing: 1}}
	},
}

// forge publishes messages that lie, until ctx ends.
func (o *owner) forge(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := o.pickUp(ctx); err != nil {
			return ignoreEnd(ctx, err)
		}
		theirs, err := o.runOf(ctx, false)
		if err != nil {
			return ignoreEnd(ctx, err)
		}
		own, err := o.runOf(ctx, true)
		if err != nil {
			return ignoreEnd(ctx, err)
		}
		var document string
		err = o.Pool.QueryRow(ctx, `SELECT source_id FROM documents WHERE connector_id = $1 ORDER BY random() LIMIT 1`, theirs.connector).Scan(&document)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return ignoreEnd(ctx, err)
		}
		for _, tell := range lies {
			if err := o.say(ctx, tell(theirs, own), document); err != nil {
				return ignoreEnd(ctx, err)
			}
			rest(ctx, pace)
		}
		noise := make([]byte, 1+rand.IntN(1000))
		for i := range noise {
			noise[i] = byte(rand.Uint32())
		}
		if err := o.publish(ctx, noise, nats.Header{}); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	return nil
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return wrap("forge", err)
}

// pickUp takes the runs of the forger's own connectors, as a worker does, so that it knows their tries. One that is lied about
// with its own try may end by it, and comes again.
func (o *owner) pickUp(ctx context.Context) error {
	_, err := o.Pool.Exec(ctx, `SELECT moves.pick_up(connector_id, id, gen_random_uuid()) FROM open_runs WHERE type = $1 AND picked_up_at IS NULL`, forger)
	return wrap("pick up the forger's runs", err)
}

// runOf is the envelope of a run: of the forger's own, or of another's, whose try nobody learns. Where none is open, one that
// might have been.
func (o *owner) runOf(ctx context.Context, own bool) (envelope, error) {
	e := envelope{session: uuid.NewString(), try: uuid.NewString(), number: 1 + rand.Int64N(1<<20)}
	err := o.Pool.QueryRow(ctx, `SELECT c.id, coalesce(r.id, $3)::text, coalesce(CASE WHEN $2 THEN r.try_id END, $4)::text, c.config_version
		FROM connectors c LEFT JOIN open_runs r ON r.connector_id = c.id
		WHERE CASE WHEN $2 THEN c.type = $5 ELSE c.user_id <> $1 END ORDER BY r.try_id IS NULL, random() LIMIT 1`, mallory, own, e.session, e.try, forger).
		Scan(&e.connector, &e.session, &e.try, &e.version)
	return e, err
}

func (o *owner) say(ctx context.Context, e envelope, document string) error {
	m := &internalpb.DocumentProcessRequest{
		ConnectorId: e.connector, ChunkingSession: e.session, Number: e.number, ConfigVersion: e.version, Try: e.try,
	}
	bodies[rand.IntN(len(bodies))](m, document)
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	header := nats.Header{}
	if rand.IntN(4) > 0 { // else it says nothing there
		header.Set(topology.HeaderSession, e.session)
		header.Set(topology.HeaderTry, e.try)
		header.Set(topology.HeaderNumber, strconv.FormatInt(m.Number, 10))
	}
	return o.publish(ctx, data, header)
}

func (o *owner) publish(ctx context.Context, data []byte, header nats.Header) error {
	msg := nats.NewMsg(topology.DocumentSubject)
	msg.Data, msg.Header = data, header
	msg.Header.Set(fault.HeaderForged, "1")
	ctx, cancel := context.WithTimeout(ctx, forgeTimeout)
	defer cancel()
	if _, err := o.stream.PublishMsg(ctx, msg); err != nil {
		return wrap("publish as a worker", err)
	}
	o.forged++
	return nil
}
