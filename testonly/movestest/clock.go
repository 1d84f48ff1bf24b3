package movestest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// SetClock has Postgres take the time from the test, in one database: clock_timestamp() is what UPDATE fake.clock SET at = … has said last. Only
// connections that are made after it have that clock.
func SetClock(t testing.TB, url string, now time.Time) {
	t.Helper()
	if err := setClock(context.Background(), url, now); err != nil {
		t.Fatal(err)
	}
}

func setClock(ctx context.Context, url string, now time.Time) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, `
		CREATE SCHEMA fake;
		CREATE TABLE fake.clock (at timestamptz NOT NULL);
		INSERT INTO fake.clock VALUES ('`+now.Format(time.RFC3339)+`');
		CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM fake.clock';
		DO $$
		DECLARE
			f regprocedure;
		BEGIN
			FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'moves'::regnamespace OR proname LIKE 'connectors\_%' OR proname LIKE 'run\_after\_%' LOOP
				EXECUTE format('ALTER FUNCTION %s SET search_path = fake, pg_catalog, public, pg_temp', f);
			END LOOP;
			EXECUTE format('ALTER DATABASE %I SET search_path = fake, pg_catalog, public', current_database());
		END $$`)
	return err
}
