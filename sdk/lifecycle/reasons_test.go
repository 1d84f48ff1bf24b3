//go:build !race

package lifecycle_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/conditions"
	"github.com/echomind/sync/internal/slots"
	"github.com/echomind/sync/sdk/lifecycle"
)

var (
	// call finds the calls of the two functions that write reasons; what they are given is up to the end of the statement.
	call = regexp.MustCompile(`(?s)moves\.(end_runs|miss_slots)\((.*?);`)
	// chosen finds what a CASE yields.
	chosen = regexp.MustCompile(`(?:THEN|ELSE) '([^']*)'`)
	quoted = regexp.MustCompile(`'([^']*)'`)
)

func TestTheReasonsAreThoseThatTheMovesWrite(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../db/migrations/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	written := map[lifecycle.Reason]lifecycle.Verdict{}
	for _, file := range files {
		sql, err := os.ReadFile(file)
		require.NoError(t, err)
		up, _, _ := strings.Cut(string(sql), "-- +goose Down")
		for _, m := range call.FindAllStringSubmatch(up, -1) {
			args := arguments(m[2])
			switch {
			case m[1] == "miss_slots" && strings.HasPrefix(args[1], "'"):
				written[lifecycle.Reason(strings.Trim(args[1], "'"))] = lifecycle.Missed
			case m[1] == "end_runs" && strings.HasPrefix(args[1], "'"):
				for _, reason := range texts(args[2]) {
					written[lifecycle.Reason(reason)] = lifecycle.Verdict(strings.Trim(args[1], "'"))
				}
			}
		}
	}
	for _, reason := range []string{slots.Passed, slots.TooLate, slots.NotCaughtUp} { // the scheduler's, which hands them to the moves
		written[lifecycle.Reason(reason)] = lifecycle.Missed
	}
	written[slots.NotOver] = lifecycle.Skipped
	written[lifecycle.ConditionFailed] = lifecycle.Failed // of no run
	require.Equal(t, lifecycle.Reasons, written)
}

func TestThePageOnReliabilityNamesEveryReason(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## How runs end")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[lifecycle.Reason]lifecycle.Verdict{}
	for _, m := range regexp.MustCompile(`(?m)\| (failed|superseded|missed|skipped): ([^|\n]+) \|`).FindAllStringSubmatch(section, -1) {
		if reason := m[2]; reason != "nothing had changed" && !strings.HasPrefix(reason, slots.AlreadyCompleted) && reason != conditions.NotMet("x") && !strings.HasPrefix(reason, slots.OnCalendar) && !strings.HasPrefix(reason, slots.InBlackout) { // in words of the store, of a day, with a name
			named[lifecycle.Reason(reason)] = lifecycle.Verdict(m[1])
		}
	}
	require.Equal(t, lifecycle.Reasons, named)
}

// arguments splits what stands between the parentheses of a call; text begins behind the first one.
func arguments(text string) []string {
	args, depth, inText := []string{""}, 0, false
	trim := func() []string {
		for i := range args {
			args[i] = strings.TrimSpace(args[i])
		}
		return args
	}
	for _, r := range text {
		switch {
		case r == '\'':
			inText = !inText
		case inText:
		case r == '(' || r == '[':
			depth++
		case r == ')' || r == ']':
			if depth--; depth < 0 {
				return trim()
			}
		case r == ',' && depth == 0:
			args = append(args, "")
			continue
		}
		args[len(args)-1] += string(r)
	}
	return trim()
}

// texts are those that an argument may be: one, what a CASE yields, or none of its own.
func texts(arg string) (all []string) {
	find := quoted
	if strings.HasPrefix(arg, "CASE") {
		find = chosen
	}
	for _, m := range find.FindAllStringSubmatch(arg, -1) {
		all = append(all, m[1])
	}
	return all
}
