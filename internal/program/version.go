package program

import (
	"fmt"
	"io"
	"path"
	"runtime/debug"
)

// exitUsage is the exit code of a command line that can never be right.
const exitUsage = 2

// Version says what was built: the module's version, the commit where the build knows it, and the Go release.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describe(info)
}

func describe(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		version += " commit " + commit[:min(len(commit), 12)]
		if settings["vcs.modified"] == "true" {
			version += ", modified,"
		}
		version += " of " + settings["vcs.time"]
	}
	return version + " " + info.GoVersion
}

// answer says what a service is asked on its command line; done means that it is not to be run.
func answer(args []string, out, problems io.Writer) (code int, done bool) {
	if len(args) == 0 {
		return 0, false
	}
	name := "service"
	if info, ok := debug.ReadBuildInfo(); ok && info.Path != "" {
		name = path.Base(info.Path)
	}
	switch args[0] {
	case "--version", "-version":
		_, _ = fmt.Fprintln(out, name, "version", Version())
		return 0, true
	case "--help", "-help", "-h":
		_, _ = fmt.Fprintf(out, `%s runs until SIGINT or SIGTERM; a second signal ends it at once.

It takes no arguments: it is configured by the environment alone. At least DATABASE_URL and NATS_URL are set;
docs/configuration.md lists every variable with its default and its meaning.

  --help     this
  --version  what was built
`, name)
		return 0, true
	}
	_, _ = fmt.Fprintf(problems, "%s takes no arguments, and was given %q: it is configured by the environment; see %s --help\n",
		name, args[0], name)
	return exitUsage, true
}
