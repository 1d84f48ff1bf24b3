package stack_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// On the embedded Postgres everything has one login, which is its owner's; what each service does it does in its own role.
func TestEachServiceOfTheStackWorksInItsOwnRole(t *testing.T) {
	ctx := context.Background()
	root := writeDocs(t, 3)
	conn, stop := run(t, dataFolder(t), root)
	defer stop()
	_, err := conn.Exec(ctx, `
		CREATE TABLE written (program text, role text);
		CREATE FUNCTION note_who_writes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
			INSERT INTO public.written VALUES (current_setting('application_name'), current_setting('role'));
			RETURN NULL;
		END $$;
		CREATE TRIGGER note_who_writes AFTER INSERT OR UPDATE OR DELETE ON open_runs
			FOR EACH STATEMENT EXECUTE FUNCTION note_who_writes()`)
	require.NoError(t, err)
	id := insert(t, conn, "file", map[string]any{"url": "file://" + root})
	require.Equal(t, "completed", verdict(t, conn, id))

	rows, err := conn.Query(ctx, `SELECT DISTINCT split_part(program, '-', 2), role FROM written ORDER BY 1`)
	require.NoError(t, err)
	roles := map[string]string{}
	var program, role string
	_, err = pgx.ForEachRow(rows, []any{&program, &role}, func() error { roles[program] = role; return nil })
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"scheduler": "echomind_scheduler", "chunker": "echomind_worker", "semantic": "echomind_semantic",
	}, roles)
}
