package contract

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/pgserver"
)

// findPsql is psql beside the server's programs, or the one on PATH.
func findPsql() (program string, err error) {
	if folder, err := pgserver.Find(); err == nil {
		if program, err = exec.LookPath(filepath.Join(folder, "psql")); err == nil {
			return program, nil
		}
	}
	if program, err = exec.LookPath("psql"); err == nil {
		return program, nil
	}
	return "", errors.New("psql is not beside the PostgreSQL server's programs, nor in PATH; install it " +
		"(Debian: apt-get install postgresql-client; Fedora: dnf install postgresql)")
}

// terminal is a psql that a person types into.
type terminal struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

// openTerminal starts psql as a login. It shows bare values, one row a line, and errors in one line.
func openTerminal(t *testing.T, url string) *terminal {
	t.Helper()
	program, err := findPsql()
	require.NoError(t, err)
	cmd := exec.Command(program, "--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--field-separator= ", "--set=VERBOSITY=terse", url)
	cmd.Env = append(os.Environ(), "PGCONNECT_TIMEOUT=10", "LC_ALL=C")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	read, write, err := os.Pipe() // one for both, so that errors stand where they came
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = write, write
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	t.Cleanup(func() {
		_ = in.Close() // psql ends by that
		require.NoError(t, cmd.Wait())
		_ = read.Close()
	})
	return &terminal{t: t, in: in, out: bufio.NewScanner(read)}
}

// types types lines and returns what psql says to them.
func (p *terminal) types(lines string) (answer []string) {
	p.t.Helper()
	end := "end of " + uuid.NewString()
	_, err := fmt.Fprintf(p.in, "%s\n;\nSELECT '%s';\n", lines, end)
	require.NoError(p.t, err)
	for p.out.Scan() {
		switch line := strings.TrimSpace(p.out.Text()); line {
		case end:
			return answer
		case "":
		default:
			answer = append(answer, line)
		}
	}
	p.t.Fatalf("psql has ended (%v) after\n%s\nand said %q", p.out.Err(), lines, answer)
	return nil
}

// set gives a psql variable a value, as a person does who has read it elsewhere.
func (p *terminal) set(name, value string) {
	p.t.Helper()
	require.Empty(p.t, p.types(fmt.Sprintf(`\set %s '%s'`, name, strings.ReplaceAll(value, "'", "''"))))
}

// get is a psql variable's value.
func (p *terminal) get(name string) string {
	p.t.Helper()
	answer := p.types(`\echo :` + name)
	require.Len(p.t, answer, 1, name)
	return answer[0]
}
