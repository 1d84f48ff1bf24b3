package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/console"
)

// Commands that are not the console's own go by the same rule.
func TestUsageErrorsOfEveryCommandExitWith2BeforeAnythingStarts(t *testing.T) {
	for args, says := range map[string]string{
		"run now":                         "now",
		"run --port 80":                   "--port",
		"run --allow-cidrs 127.0.0.1":     `--allow-cidrs "127.0.0.1": must be ranges such as`,
		"run --file-roots docs":           `--file-roots "docs": must be absolute paths`,
		"demo now":                        "now",
		"demo --folder x":                 "--folder",
		"rnu":                             "did you mean run",
		"help rnu":                        "did you mean run",
		"--verbose":                       "--verbose",
		"connectors add --user one":       "--user",
		"connectors trigger 1 --wait=now": "--wait",
	} {
		var stdout, stderr bytes.Buffer
		c := root()
		c.SetArgs(strings.Fields(args))
		c.SetOut(&stdout)
		c.SetErr(&stderr)
		require.Equal(t, 2, console.Execute(context.Background(), c), args)
		require.Contains(t, stderr.String(), says, args)
		require.Empty(t, stdout.String(), args)
	}
}
