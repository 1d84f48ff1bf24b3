package version

import (
	"runtime/debug"
	"testing"
)

func TestAVersionNamesTheCommitWhereTheBuildKnowsIt(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0"}
	if got := describe(info); got != "(devel) go1.26.0" {
		t.Error(got)
	}
	info.Main.Version = "v1.2.3"
	info.Settings = []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-03-01T00:00:00Z"},
	}
	if got := describe(info); got != "v1.2.3 commit 0123456789ab of 2026-03-01T00:00:00Z go1.26.0" {
		t.Error(got)
	}
	info.Settings = append(info.Settings, debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	if got := describe(info); got != "v1.2.3 commit 0123456789ab, modified, of 2026-03-01T00:00:00Z go1.26.0" {
		t.Error(got)
	}
}

func TestALinkerMaySayWhatWasBuilt(t *testing.T) {
	release, commit = "v2.0.0", "89abcdef0123"
	defer func() { release, commit = "", "" }()
	if got := describe(&debug.BuildInfo{GoVersion: "go1.26.0"}); got != "v2.0.0 commit 89abcdef0123 go1.26.0" {
		t.Error(got)
	}
}
