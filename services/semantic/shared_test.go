package semantic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	pb "github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/search/qdrant/standin"
)

const (
	every  = "every"
	remove = "Delete"
	upsert = "Upsert"
)

// indexed is a fixture whose service keeps an index in a stand-in for Qdrant.
type indexed struct {
	*fixture
	server *standin.Server
	// failing, where it names an operation, or every one, refuses it.
	failing atomic.Value
	// asked counts the operations, and biggest is the size of the largest request so far, in bytes.
	asked, biggest atomic.Int64
	hold           atomic.Pointer[hold]
}

func (c trip) stillRuns() {
	c.f.t.Helper()
	require.True(c.f.t, one[bool](c.f, `SELECT status = 'SYNCING' AND run_id = $2 AND EXISTS (SELECT FROM open_runs WHERE id = $2)
		FROM connectors WHERE id = $1`, c.connector, c.session))
}

// holds runs a statement in a transaction that then does nothing, as a user's may; the returned function ends it.
func (f *fixture) holds(sql string, args ...any) (release func()) {
	f.t.Helper()
	conn, err := pgx.Connect(ctx, f.url)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close(ctx) })
	_, err = conn.Exec(ctx, `BEGIN; SET LOCAL lock_timeout = '10s'`)
	require.NoError(f.t, err)
	_, err = conn.Exec(ctx, sql, args...)
	require.NoError(f.t, err)
	return func() {
		f.t.Helper()
		_, err := conn.Exec(ctx, `ROLLBACK`)
		require.NoError(f.t, err)
	}
}

// page is the state of the connector as checkpoint sets it; "" where it has none.
func (c trip) page() string {
	c.f.t.Helper()
	return one[string](c.f, `SELECT coalesce(state->>'page', '') FROM connectors WHERE id = $1`, c.connector)
}

func inListing(listing int32) func(*internalpb.DocumentPart) {
	return func(p *internalpb.DocumentPart) { p.Listing = listing }
}

// rows is everything that is kept of a connector.
func (c trip) rows() string {
	c.f.t.Helper()
	all := ""
	for _, sql := range []string{
		`SELECT (to_jsonb(d) - 'updated_at')::text FROM documents d WHERE connector_id = $1 ORDER BY id`,
		`SELECT s::text FROM sightings s WHERE connector_id = $1 ORDER BY 1`,
		`SELECT concat(k.try_id, k.no, k.text) FROM chunks k JOIN documents d ON d.id = k.document_id WHERE d.connector_id = $1 ORDER BY 1`,
		`SELECT concat(state, status, config_version, docs_analyzed, failure_count, run_id) FROM connectors WHERE id = $1`,
	} {
		all += fmt.Sprintln(many[string](c.f, sql, c.connector))
	}
	return all
}

func startQdrant(t testing.TB, x *indexed) config.Qdrant {
	x.failing.Store("")
	x.server = &standin.Server{Key: "secret", Around: func(operation string, request proto.Message, next func() error) error {
		x.asked.Add(1)
		x.biggest.Store(max(x.biggest.Load(), int64(proto.Size(request))))
		if failing := x.failing.Load().(string); failing == every || failing == operation {
			return status.Error(codes.Unavailable, "overloaded")
		}
		if h := x.hold.Load(); h != nil && operation == h.operation && h.taken.CompareAndSwap(false, true) {
			close(h.reached)
			<-h.release
			defer close(h.done)
		}
		return next()
	}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stop, wait := x.server.Serve(listener)
	t.Cleanup(func() { stop(); require.NoError(t, wait()) })
	return config.Qdrant{URL: "http://" + listener.Addr().String(), APIKey: "secret", Collection: "tests"}
}

func newIndexed(t *testing.T) *indexed {
	t.Parallel()
	x := &indexed{fixture: onDatabase(t)}
	x.qdrant = startQdrant(t, x)
	x.Semantic = x.service(x.connects())
	require.NoError(t, x.index.Look(ctx))
	return x
}

// mirrors says that the index holds exactly the chunks that documents show, and that nothing waits to be brought.
func (x *indexed) mirrors() error {
	shown := many[string](x.fixture, `SELECT concat_ws(' ', CASE k.scope WHEN 'org' THEN k.scope ELSE k.scope || '_' || coalesce(k.scope_id, k.user_id::text) END,
			d.connector_id, d.id, d.try_id, d.first_no, c.no)
		FROM documents d JOIN connectors k ON k.id = d.connector_id JOIN chunks c ON c.try_id = d.try_id AND c.first_no = d.first_no AND c.document_id = d.id`)
	held := []string{}
	for _, p := range x.points() {
		held = append(held, fmt.Sprint(p["scope"].GetStringValue(), " ", p["connector_id"].GetIntegerValue(), " ", p["document_id"].GetIntegerValue(),
			" ", p["try_id"].GetStringValue(), " ", p["first_no"].GetIntegerValue(), " ", p["no"].GetIntegerValue()))
	}
	slices.Sort(shown)
	slices.Sort(held)
	if waiting := x.count("search_index_changes"); !slices.Equal(shown, held) || waiting > 0 {
		return fmt.Errorf("shown %v, held %v, %d changes wait", shown, held, waiting)
	}
	return nil
}

func (x *indexed) points() []map[string]*pb.Value { return x.server.Points(x.collection()) }

// collection is the one that the index is kept in.
func (x *indexed) collection() string {
	return one[string](x.fixture, `SELECT name || '-' || generation FROM search_index`)
}

// another is one more replica of the service.
func (x *indexed) another(change ...func(*config.Qdrant)) *Semantic {
	f := *x.fixture
	for _, set := range change {
		set(&f.qdrant)
	}
	return f.service(f.connects())
}

// sweeps removes everything that may go.
func (f *fixture) sweeps() {
	f.t.Helper()
	require.NoError(f.t, inTime(f.Sweep))
	require.NoError(f.t, f.sweepDeletedConnectors(ctx))
	require.NoError(f.t, inTime(f.SweepChunks))
}

// uuidOf is a UUID with a number.
func uuidOf(n int) uuid.UUID {
	return uuid.MustParse("00000000-0000-0000-0000-" + fmt.Sprintf("%012s", strconv.Itoa(n)))
}

func (f *fixture) sweepDeletedConnectors(ctx context.Context) error {
	f.exec(`UPDATE deleted_connectors SET next_at = '-infinity'`)
	done, err := f.SweepDeletedConnectors(ctx, time.Now().Add(soon))
	return errors.Join(append(done.Held, err)...)
}
