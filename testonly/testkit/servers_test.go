package testkit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func execute(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

func words(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM words`).Scan(&n))
	require.NoError(t, conn.Close(t.Context()))
	return n
}

var migrations atomic.Int64

func migrate(ctx context.Context, url string) error {
	migrations.Add(1)
	return createWords(ctx, url)
}

func createWords(ctx context.Context, url string) error {
	return execute(ctx, url, `CREATE TABLE words AS SELECT 'first'::text AS word`)
}

func TestEachTestHasItsOwnCopyOfOneMigration(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			url := Database(t, migrate)
			require.Equal(t, 1, words(t, url))
			require.NoError(t, execute(t.Context(), url, `INSERT INTO words VALUES ('second')`))
			require.Equal(t, 2, words(t, url))
		})
	}
	t.Cleanup(func() { require.LessOrEqual(t, migrations.Load(), int64(1)) })
}

func TestAClosureMigratesEachDatabaseItself(t *testing.T) {
	for n := range 2 {
		url := Database(t, func(ctx context.Context, url string) error {
			return execute(ctx, url, fmt.Sprintf(`CREATE TABLE words AS SELECT generate_series(1, %d)`, n+1))
		})
		require.Equal(t, n+1, words(t, url))
	}
}

type migrator struct{}

func (migrator) up(context.Context, string) error { return nil }

func TestOnlyTopLevelFunctionsShareATemplate(t *testing.T) {
	require.Regexp(t, topLevel, functionName(migrate))
	require.Regexp(t, topLevel, "github.com/echomind/sync/db.Up")
	require.Regexp(t, topLevel, "gopkg.in/a%2ev2.Up")
	require.NotRegexp(t, topLevel, functionName(func(context.Context, string) error { return nil }))
	require.NotRegexp(t, topLevel, functionName(migrator{}.up))
	require.NotRegexp(t, topLevel, functionName(migrator.up))
}

func TestADatabaseIsDroppedAfterItsTestEvenWithConnections(t *testing.T) {
	var url string
	t.Run("user", func(t *testing.T) {
		url = Postgres(t)
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, conn.Ping(context.Background()))
		})
	})
	require.Error(t, answers(url))
}

func TestAPrivateServerKeepsWhatWasCommittedWhenItIsKilled(t *testing.T) {
	server, url := PrivatePostgres(t, createWords)
	require.NoError(t, execute(t.Context(), url, `INSERT INTO words VALUES ('second')`))
	require.NoError(t, server.Kill())
	require.Error(t, answers(url))
	require.NoError(t, server.Restart(t.Context()))
	require.Equal(t, url, server.URL())
	require.Equal(t, 2, words(t, url))
}

func TestNATSRestartsWithItsStreamsOrWithout(t *testing.T) {
	server := NATS(t)
	url := server.URL()
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "words", Subjects: []string{"words.>"}})
	require.NoError(t, err)

	require.NoError(t, server.Restart(false))
	require.Equal(t, url, server.URL())
	Eventually(t, 10*time.Second, func() error {
		_, err := js.Stream(t.Context(), "words")
		return err
	})
	require.NoError(t, server.Restart(true))
	Eventually(t, 10*time.Second, func() error {
		if _, err := js.Stream(t.Context(), "words"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("want no stream, got %w", err)
		}
		return nil
	})
}
