package program

import (
	"fmt"
	"io"
	"path"
	"runtime/debug"

	"github.com/echomind/sync/internal/version"
)

// exitUsage is the exit code of a wrong command line.
const exitUsage = 2

// answer handles a service's command line; done means that the service must not run.
func answer(args []string, out, problems io.Writer) (code int, done bool) {
	if len(args) == 0 {
		return 0, false
	}
	name := "service"
	if info, ok := debug.ReadBuildInfo(); ok && info.Path != "" {
		name = path.Base(info.Path)
	}
	switch args[0] {
	case "health":
		return health(args[1:], problems), true
	case "--version", "-version":
		_, _ = fmt.Fprintln(out, name, "version", version.String())
		return 0, true
	case "--help", "-help", "-h":
		_, _ = fmt.Fprintf(out, `%s runs until SIGINT or SIGTERM; a second signal ends it at once.

To run, it takes no arguments: it is configured by the environment alone. DATABASE_URL has no default and
must be set; docs/configuration.md lists every variable with its default and its meaning.

  health     asks the one that runs on HTTP_ADDR whether it is ready (health --live: whether it is alive)
  --help     this
  --version  what was built
`, name)
		return 0, true
	}
	_, _ = fmt.Fprintf(problems, "%s takes no arguments, and was given %q: it is configured by the environment; see %s --help\n",
		name, args[0], name)
	return exitUsage, true
}
