package console_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Somebody's own trigger is the only way to these by a command.
func TestWhatOnlyMovesMayWriteIsRefusedWithTheReasonAndTheFix(t *testing.T) {
	t.Parallel()
	for write, says := range map[string]string{
		`NEW.status_message := 'mine'`:          "connector 1: status, plan, run, state and counts are not written but moved. Call a function of schema moves",
		`NEW.next_sync_at := clock_timestamp()`: "are not written but moved",
		`NEW.id := 7`:                           "connector 1: id and created_at cannot be changed. Delete the connector and add another.",
	} {
		u := newTerminal(t)
		u.add()
		u.exec(`CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + write + `; RETURN NEW; END $$`)
		u.exec(`CREATE TRIGGER a_meddler BEFORE UPDATE ON connectors FOR EACH ROW EXECUTE FUNCTION meddle()`)
		out := u.run("connectors", "update", "1", "--name", "papers")
		require.Equal(t, 1, out.code, write)
		require.Contains(t, out.stderr, says, write)
		require.NotContains(t, out.stderr, "SQLSTATE", write)
	}
}

func TestADisabledConnectorIsNotTriggered(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.add()
	u.succeed("connectors", "disable", "1")
	out := u.run("connectors", "trigger", "1")
	require.Equal(t, 1, out.code)
	require.Contains(t, out.stderr, "connector 1 is disabled; enable it first: echomind connectors enable 1")
}

func TestAConfigurationThatIsNestedTooDeepIsRefused(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	deep := strings.Repeat(`{"a":`, 31) + "1" + strings.Repeat("}", 31)
	out := u.run("connectors", "add", "--name", "deep", "--type", "file", "--user", "1", "--no-config-check", "--config", deep)
	require.Equal(t, 2, out.code)
	require.Contains(t, out.stderr, "--config: must be nested at most 30 levels deep")
}
