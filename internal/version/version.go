// Package version describes the build.
package version

import "runtime/debug"

// Set by the linker where the build cannot read the repository, as in an image:
//
//	-ldflags "-X github.com/echomind/sync/internal/version.release=v1.2.3 -X …version.commit=0123abc"
var release, commit string

// Release is the version, or (devel).
func Release() string {
	info, _ := debug.ReadBuildInfo()
	return releaseOf(info)
}

// String is the release, the commit where the build knows it, and the Go release.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describe(info)
}

func releaseOf(info *debug.BuildInfo) string {
	switch {
	case release != "":
		return release
	case info != nil && info.Main.Version != "":
		return info.Main.Version
	}
	return "(devel)"
}

func describe(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	said := releaseOf(info)
	switch revision := settings["vcs.revision"]; {
	case commit != "":
		said += " commit " + commit
	case revision != "":
		said += " commit " + revision[:min(len(revision), 12)]
		if settings["vcs.modified"] == "true" {
			said += ", modified,"
		}
		said += " of " + settings["vcs.time"]
	}
	return said + " " + info.GoVersion
}
