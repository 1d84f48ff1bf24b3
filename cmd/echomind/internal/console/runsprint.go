package console

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/cmd/echomind/internal/await"
	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/evidence/failures"
	"github.com/echomind/sync/sdk/lifecycle"
)

func printRuns(w io.Writer, out output, found []dbgen.SchedulerRun, now time.Time) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "it has no runs yet; `echomind why ID` tells why")
		return err
	}
	rows, notes := make([][]string, len(found)), make([]string, len(found))
	for i, r := range found {
		queued, fetching, storing := durations(r, now)
		due := clock.At(r.DueAt, now)
		if r.SlotLast != nil && out == allColumns {
			due += " … " + clock.At(*r.SlotLast, now)
		}
		verdict := verdictOf(r)
		notes[i] = noteOf(r, now)
		documents := []string{
			count(r.DocumentsProcessed), count(r.DocumentsUnchanged), count(r.DocumentsDeleted), count(r.DocumentsFailed),
		}
		if out == allColumns {
			rows[i] = append([]string{r.ID.String(), due, r.Trigger, verdict, span(queued), span(fetching), span(storing), messages(r)}, documents...)
			rows[i] = append(rows[i], count(r.ChunksStored), notes[i])
			continue
		}
		rows[i] = append([]string{due, r.Trigger, verdict, span(sum(queued, fetching, storing))}, documents...)
	}
	if out == allColumns {
		return table(w, []string{
			"RUN", "DUE", "WHY", "VERDICT", "QUEUED", "FETCHING", "STORING", "MESSAGES", "STORED", "UNCHANGED", "DELETED", "FAILED",
			"CHUNKS", "REASON",
		}, rows)
	}
	if err := fitted(w, []string{"DUE", "WHY", "VERDICT", "TOOK", "STORED", "UNCHANGED", "DELETED", "FAILED"}, rows, notes); err != nil {
		return err
	}
	return printWarned(w, found...)
}

// printWarned names the command that lists the warnings of the first of these runs that has some, such as what its source left out.
func printWarned(w io.Writer, found ...dbgen.SchedulerRun) error {
	for _, r := range found {
		if n := len(r.Warnings); n > 0 {
			_, err := fmt.Fprintf(w, "`echomind runs show %s` lists its %s\n", shortID(r.ID), counted(int64(n), "warning", "warnings"))
			return err
		}
	}
	return nil
}

func verdictOf(r dbgen.SchedulerRun) string {
	if r.MissedCount == nil {
		return r.Status
	}
	return fmt.Sprintf("%s %d", r.Status, *r.MissedCount)
}

// noteOf is what there is to say of a run beside its verdict.
func noteOf(r dbgen.SchedulerRun, now time.Time) string {
	note := await.Reason(r)
	if r.Status == string(lifecycle.Skipped) && note == "nothing had changed" {
		note = "" // the verdict says so
	}
	if line := clock.Progress(r.ProgressDone, r.ProgressTotal, r.ProgressText); line != "" && r.Status == string(lifecycle.Running) {
		note = line
	}
	if n := len(r.Warnings); n > 0 {
		note = strings.TrimSuffix(counted(int64(n), "warning", "warnings")+"; "+note, "; ")
	}
	if r.WaitMessage != nil && r.WaitsUntil.After(now) {
		note = clock.Wait(*r.WaitMessage, *r.WaitsUntil, now)
	}
	if r.Parameters != nil {
		note = strings.TrimSuffix("with "+string(parametersOf(r.Parameters))+"; "+note, "; ")
	}
	if r.DeletionsAllowedAt != nil {
		note = strings.TrimSuffix("deletions allowed; "+note, "; ")
	}
	return note
}

// sum adds up the durations that are known; nil where none is known.
func sum(parts ...*time.Duration) *time.Duration {
	var all *time.Duration
	for _, part := range parts {
		if part == nil {
			continue
		}
		if all == nil {
			all = new(time.Duration)
		}
		*all += *part
	}
	return all
}

// printFailures says what is failed of a connector now. That it could not be counted is said, and is no error.
func printFailures(w io.Writer, id int32, s failures.Summary, uncounted error) error {
	if uncounted != nil {
		_, err := fmt.Fprintf(w, "%v\n", uncounted)
		return err
	}
	return printSummary(w, id, s)
}

func printSummary(w io.Writer, id int32, s failures.Summary) error {
	for i, line := range s.Lines(id) {
		text := printable(line) + "\n"
		if i > 0 {
			text = wrapped(line)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

func messages(r dbgen.SchedulerRun) string {
	switch {
	case r.MissedCount != nil:
		return "-"
	case r.Total == nil:
		return fmt.Sprintf("%d/?", r.Stored)
	}
	return fmt.Sprintf("%d/%d", r.Stored, *r.Total)
}

func span(d *time.Duration) string {
	if d == nil {
		return "-"
	}
	return clock.Span(*d)
}

func count(n int64) string { return strconv.FormatInt(n, 10) }
