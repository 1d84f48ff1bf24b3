package console_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASystemJobIsAddedOnceByAnAdministratorAndThenChanged(t *testing.T) {
	t.Parallel()
	u := newTerminal(t).withStreams()
	u.exec(`CREATE ROLE echomind_tidy_keeper IN ROLE echomind_console, echomind_administrator`) // roles are the cluster's
	defer u.exec(`DROP ROLE echomind_tidy_keeper`)
	admin, person := u.as("echomind_tidy_keeper"), u.as(consoleRole)
	require.Equal(t, 1, person.run("types", "add", "tidy", "--system").code)
	admin.succeed("types", "add", "tidy", "--system", "--default-refresh", "1h")
	require.Contains(t, admin.run("connectors", "add", "--name", "x", "--type", "tidy", "--user", "1").stderr, "is a type of the system")
	require.Contains(t, admin.run("connectors", "add", "--name", "x", "--type", "tidy").stderr, "--user: is needed")
	require.Contains(t, admin.run("connectors", "add", "--name", "x", "--type", "tidy", "--user", "1", "--scope", "system").stderr, "goes with every scope but system")
	require.Contains(t, person.run("connectors", "add", "--name", "x", "--type", "tidy", "--scope", "system").stderr, "administrators alone")
	require.Contains(t, admin.succeed("connectors", "add", "--name", "tidy up", "--type", "tidy", "--scope", "system"), " is added")
	number := fmt.Sprint(u.array("connectors", "list")[0]["id"])
	require.Contains(t, admin.succeed("connectors", "add", "--name", "tidy", "--type", "tidy", "--scope", "system", "--refresh", "2h"), "system job "+number+" was there, and is changed")
	for _, command := range [][]string{{"update", number, "--refresh", "3h"}, {"disable", number}, {"trigger", number}, {"delete", number, "--yes"}} {
		out := person.run(append([]string{"connectors"}, command...)...)
		require.Equal(t, 1, out.code, command)
		require.Contains(t, out.stderr, "administrators alone", command)
	}
	require.Regexp(t, number+` +tidy +ACTIVE +- +`, person.succeed("status"))
	admin.succeed("connectors", "disable", number)
	require.Regexp(t, number+` +tidy +DISABLED +- +`, person.succeed("status"))
	require.Contains(t, person.succeed("connectors", "list", "-o", "wide"), "system")
}
