package semantic

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/sdk/lifecycle"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) {
	testkit.Histories(40)
	goleak.VerifyTestMain(testkit.Closing(m)) // every loop ends with its service
}

const (
	// soon bounds what should take milliseconds.
	soon = 2 * time.Minute
	// role has the rights of the service, and no others: what the tests do for it they do by another connection.
	role = "echomind_semantic"
)

var ctx = context.Background()

// fixture is a service on a database of its own, without a broker: the store path is called.
type fixture struct {
	*Semantic
	t testing.TB
	// pool may do everything; the service has one of its own.
	pool *pgxpool.Pool
	url  string
	// embedding and writing are called before the real embedder and store; an error of theirs is returned.
	embedding func(texts []string) error
	writing   func(pieces []Piece) error
	// qdrant is where the index is kept; nowhere by default.
	qdrant config.Qdrant
}

type hookedEmbedder struct {
	embed.Hash
	f *fixture
}

func (e *hookedEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if e.f.embedding != nil {
		if err := e.f.embedding(texts); err != nil {
			return nil, err
		}
	}
	return e.Hash.Embed(ctx, texts)
}

type hookedStore struct {
	*PostgresStore
	f *fixture
}

func (s *hookedStore) Write(ctx context.Context, tx pgx.Tx, pieces []Piece) error {
	if s.f.writing != nil && len(pieces) > 0 {
		if err := s.f.writing(pieces); err != nil {
			return err
		}
	}
	return s.PostgresStore.Write(ctx, tx, pieces)
}

func newFixture(t *testing.T) *fixture {
	t.Parallel()
	f := onDatabase(t)
	f.Semantic = f.service(f.connects())
	return f
}

// onDatabase is a fixture with a database and no service yet.
func onDatabase(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, url: testkit.Database(t, db.Up)}
	f.pool = openPool(t, f.url)
	return f
}

// connects opens connections for a service.
func (f *fixture) connects() *connect.Servers {
	f.t.Helper()
	return &connect.Servers{Pool: openPool(f.t, f.url, postgres.As(role))}
}

func openPool(t testing.TB, url string, how ...postgres.Option) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(ctx, url, "test", 8, how...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func (f *fixture) service(servers *connect.Servers) *Semantic {
	cfg := Config{Workers: 2, Batch: 64, MaxTries: 2, LedgerRetentionDays: 90, AuditRetentionDays: 365, ForeignTimeout: 6 * time.Hour, Qdrant: f.qdrant}
	store := &hookedStore{PostgresStore: NewPostgresStore(), f: f}
	return New(cfg, servers, &hookedEmbedder{f: f}, store, connect.NewProcess(testkit.Logger(f.t)))
}

// trip is one run of a connector whose worker is done.
type trip struct {
	f         *fixture
	connector int32
	session   uuid.UUID
	try       uuid.UUID
	version   int64
}

// of is the try whose run it is.
func (c trip) of() lifecycle.Try { return lifecycle.Try{Run: c.session, ID: c.try} }

// connector is at rest; set are more columns, as "scope = 'org'".
func (f *fixture) connector(set ...string) trip {
	f.t.Helper()
	c := trip{f: f}
	c.connector = one[int32](f, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		VALUES ('notes', 'file', 1, 60) RETURNING id`)
	for _, s := range set {
		f.exec(`UPDATE connectors SET `+s+` WHERE id = $1`, c.connector)
	}
	return c
}

func (f *fixture) syncing(set ...string) trip {
	f.t.Helper()
	return f.connector(set...).again()
}

// again begins another run of the connector, as scheduler and worker do.
func (c trip) again() trip {
	c.f.t.Helper()
	return c.begun(movestest.Claim(c.f.t, c.f.pool, c.connector))
}

// begun is a run that a worker has picked up. Its lease lasts as long as a test.
func (c trip) begun(run uuid.UUID) trip {
	c.f.t.Helper()
	try := movestest.PickUp(c.f.t, c.f.pool, c.connector, run, time.Hour)
	c.session, c.try = try.Run, try.ID
	c.version = one[int64](c.f, `SELECT config_version FROM open_runs WHERE id = $1`, c.session)
	return c
}

// tells says what sync completed would, without completing the run.
func (c trip) tells(total int64) {
	c.f.t.Helper()
	c.f.exec(`UPDATE open_runs SET total = $2, whole = stored = $2 WHERE id = $1`, c.session, total)
}

func (c trip) message(no int64) *internalpb.DocumentProcessRequest {
	return &internalpb.DocumentProcessRequest{
		ConnectorId: c.connector, ChunkingSession: c.session.String(), Try: c.try.String(), ConfigVersion: c.version, Number: no,
	}
}

// doc is a document of one part with one chunk; change may make it anything else.
func (c trip) doc(no int64, id, text string, change ...func(*internalpb.DocumentPart)) *internalpb.DocumentProcessRequest {
	part := &internalpb.DocumentPart{
		SourceId: id, Title: id, VersionToken: "token of " + text, ContentHash: "hash of " + text, Links: []string{"to " + text},
		FirstNo: no, Parts: 1, ChunkCount: 1, Chunks: []*internalpb.Chunk{{Text: text, End: int64(len(text))}},
	}
	for _, set := range change {
		set(part)
	}
	m := c.message(no)
	m.Body = &internalpb.DocumentProcessRequest_Part{Part: part}
	return m
}

// part makes a document message part i of n.
func part(i, n int) func(*internalpb.DocumentPart) {
	return func(p *internalpb.DocumentPart) {
		p.FirstNo -= int64(i)
		p.Parts, p.ChunkCount, p.FirstChunk = int32(n), int32(n), int32(i)
	}
}

func unreadable(p *internalpb.DocumentPart) {
	p.Error, p.Chunks, p.VersionToken, p.ChunkCount = "unreadable", nil, "", 0
}

func touched(hash, token string) func(*internalpb.DocumentPart) {
	return func(p *internalpb.DocumentPart) {
		p.KeepChunks, p.Chunks, p.ChunkCount, p.ContentHash, p.VersionToken = true, nil, 0, hash, token
	}
}

func (c trip) deletion(no int64, id string) *internalpb.DocumentProcessRequest {
	m := c.message(no)
	m.Body = &internalpb.DocumentProcessRequest_Deletion{Deletion: &internalpb.DocumentDeletion{SourceId: id}}
	return m
}

// checkpoint is one whose state is a page.
func (c trip) checkpoint(no int64, page int) *internalpb.DocumentProcessRequest {
	state, _ := structpb.NewStruct(map[string]any{"page": page})
	m := c.message(no)
	m.Body = &internalpb.DocumentProcessRequest_Checkpoint{Checkpoint: &internalpb.SyncCheckpoint{State: state}}
	return m
}

func (c trip) seen(no int64, listing int32, ids ...string) *internalpb.DocumentProcessRequest {
	m := c.message(no)
	m.Body = &internalpb.DocumentProcessRequest_Seen{Seen: &internalpb.DocumentsSeen{SourceIds: ids, Listing: listing}}
	return m
}

func (c trip) completed(total int64) *internalpb.DocumentProcessRequest {
	state, _ := structpb.NewStruct(map[string]any{"delta": c.session.String()})
	m := c.message(0)
	m.Body = &internalpb.DocumentProcessRequest_Completed{Completed: &internalpb.SyncCompleted{
		Total: total, NewState: state, ListingWhole: true,
	}}
	return m
}

// handles takes messages of one try together through the store path.
func (c trip) handles(messages ...*internalpb.DocumentProcessRequest) error {
	var group []delivery
	for _, m := range messages {
		group = append(group, delivery{msg: silentMessage{}, request: m, try: lifecycle.Try{Run: uuid.MustParse(m.ChunkingSession), ID: uuid.MustParse(m.Try)}})
	}
	err := c.f.untilAnswered(ctx, group[0], func(ctx context.Context) error { return c.f.process(ctx, group) })
	if err == nil && c.f.index != nil {
		if away := inTime(c.f.index.catchUp); away != nil {
			c.f.t.Logf("the index: %v", away)
		}
	}
	return err
}

// inTime takes a step of what keeps house, which repeats it too: on a busy machine a server may be late that is not away.
func inTime(step func(context.Context) error) (err error) {
	for range 10 {
		var late *deadline.Error
		if err = step(ctx); !errors.As(err, &late) {
			break
		}
	}
	return err
}

func (c trip) stores(messages ...*internalpb.DocumentProcessRequest) {
	c.f.t.Helper()
	require.NoError(c.f.t, c.handles(messages...))
}

// synced is a connector whose run stored one document per text, and is complete.
func (f *fixture) synced(texts map[string]string, set ...string) trip {
	f.t.Helper()
	c := f.syncing(set...)
	no := int64(0)
	for id, text := range texts {
		no++
		c.stores(c.doc(no, id, text))
	}
	c.stores(c.completed(no))
	require.Equal(f.t, "completed", c.verdict(), "no documents?")
	return c
}

func (c trip) verdict() string {
	c.f.t.Helper()
	return one[string](c.f, `SELECT status FROM scheduler_runs WHERE id = $1`, c.session)
}

func (c trip) status() string {
	c.f.t.Helper()
	return one[string](c.f, `SELECT status FROM connectors WHERE id = $1`, c.connector)
}

func (c trip) stored() int64 {
	c.f.t.Helper()
	return one[int64](c.f, `SELECT stored FROM scheduler_runs WHERE id = $1`, c.session)
}

// documents is what a search could read of a connector, and what the next sync will know: a line per document.
func (c trip) documents() string {
	c.f.t.Helper()
	return strings.Join(many[string](c.f, `SELECT concat_ws(' | ', d.source_id, d.status, d.version_token, d.content_hash,
			d.links::text, d.chunk_count, coalesce(d.error, '-'),
			(SELECT string_agg(k.text, ' + ' ORDER BY k.no) FROM chunks k
				WHERE k.try_id = d.try_id AND k.first_no = d.first_no AND k.document_id = d.id))
		FROM documents d WHERE d.connector_id = $1 AND d.deleted_at IS NULL ORDER BY d.source_id`, c.connector), "\n")
}

// line is what documents says of one that was stored by doc.
func line(id, text string) string {
	return fmt.Sprintf(`%s | stored | token of %s | hash of %s | {"to %s"} | 1 | - | %s`, id, text, text, text, text)
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.pool.Exec(ctx, sql, args...)
	require.NoError(f.t, err)
}

func many[T any](f *fixture, sql string, args ...any) []T {
	f.t.Helper()
	rows, err := f.pool.Query(ctx, sql, args...)
	require.NoError(f.t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(f.t, err)
	return values
}

func one[T any](f *fixture, sql string, args ...any) T {
	f.t.Helper()
	values := many[T](f, sql, args...)
	require.Len(f.t, values, 1)
	return values[0]
}

func (f *fixture) count(table string) int64 {
	f.t.Helper()
	return one[int64](f, `SELECT count(*) FROM `+table)
}
