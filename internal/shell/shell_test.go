package shell_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/shell"
)

func TestAShellReadsWhatWasQuoted(t *testing.T) {
	for _, text := range []string{"", "page 002", `it's "$HOME" $(id) ` + "`id`" + ` \ !x *`, "'", "''"} {
		got, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+shell.Quote(text)).Output()
		require.NoError(t, err)
		require.Equal(t, text, string(got))
	}
}
