package program

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
)

func TestAServiceAnswersWhatItIsAskedOnItsCommandLine(t *testing.T) {
	for _, c := range []struct {
		args        []string
		code        int
		done        bool
		says, warns string
	}{
		{nil, 0, false, "", ""},
		{[]string{"--version"}, 0, true, "version ", ""},
		{[]string{"--help"}, 0, true, "docs/configuration.md", ""},
		{[]string{"-h"}, 0, true, "--version", ""},
		{[]string{"--port", "80"}, 2, true, "", `was given "--port"`},
	} {
		var out, problems bytes.Buffer
		code, done := answer(c.args, &out, &problems)
		if code != c.code || done != c.done {
			t.Errorf("%q: %d, %v", c.args, code, done)
		}
		if !strings.Contains(out.String(), c.says) || c.says == "" && out.Len() > 0 {
			t.Errorf("%q says %q", c.args, &out)
		}
		if !strings.Contains(problems.String(), c.warns) || c.warns == "" && problems.Len() > 0 {
			t.Errorf("%q warns %q", c.args, &problems)
		}
	}
}

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
