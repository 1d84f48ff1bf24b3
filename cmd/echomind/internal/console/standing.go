package console

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/echomind/sync/internal/clock"
)

// print writes a standing for people.
func (s standing) print(w io.Writer) error {
	for _, section := range []func(io.Writer) error{
		s.printURLs, s.printServices, s.printStreams, s.printSubscribers, s.printConnectors, s.printSystemJobs, s.printKeys, s.printEvents, s.printProblems,
	} {
		if err := section(w); err != nil {
			return err
		}
	}
	return nil
}

func (s standing) printURLs(w io.Writer) error {
	if s.through {
		return table(w, []string{"server", s.URLs.HTTP}, nil)
	}
	rows := [][]string{{"nats", orDash(&s.URLs.NATS)}}
	if s.URLs.HTTP != "" {
		ready := "does not answer"
		switch {
		case s.Ready != nil && s.Ready.Ready:
			ready = "ready"
		case s.Ready != nil:
			ready = "not ready: " + said(s.Ready.Problems)
		}
		rows = append(rows, []string{"http", s.URLs.HTTP + "  " + ready})
	}
	return table(w, []string{"psql", s.URLs.Postgres}, rows)
}

func said(problems map[string]string) string {
	all := make([]string, 0, len(problems))
	for part, problem := range problems {
		all = append(all, part+": "+problem)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func (s standing) printServices(w io.Writer) error {
	rows := [][]string{}
	for _, one := range s.Services {
		active := "-"
		if one.LastActive != nil {
			active = clock.Ago(*one.LastActive, s.now)
		}
		rows = append(rows, []string{
			strings.TrimPrefix(one.Name, application+"-"), count(one.Connections), clock.Optional(one.Since, s.now), active,
		})
	}
	return section(w, []string{"SERVICE", "CONNECTIONS", "SINCE", "LAST ACTIVE"}, rows, "no service is connected to Postgres")
}

func (s standing) printStreams(w io.Writer) error {
	rows := [][]string{}
	for _, one := range s.Streams {
		row := []string{one.Name, "-", "-", "does not exist"}
		if one.Exists {
			row = []string{one.Name, strconv.FormatUint(one.Messages, 10), size(one.Bytes), "-"}
		}
		if one.OldestAt != nil {
			row[3] = clock.Ago(*one.OldestAt, s.now)
		}
		rows = append(rows, row)
	}
	return section(w, []string{"STREAM", "MESSAGES", "SIZE", "OLDEST"}, rows, "no stream is known")
}

func (s standing) printSubscribers(w io.Writer) error {
	rows := [][]string{}
	for _, one := range s.Subscribers {
		rows = append(rows, []string{
			one.Consumer, one.Stream, strconv.Itoa(one.FreeSlots), strconv.FormatUint(one.Undelivered, 10),
			strconv.Itoa(one.Unacked),
		})
	}
	return section(w, []string{"CONSUMER", "STREAM", "WAITING PULLS", "UNDELIVERED", "UNACKNOWLEDGED"}, rows,
		"nobody subscribes to a stream")
}

func (s standing) printConnectors(w io.Writer) error {
	byType := map[string]map[string]int64{}
	var order []string
	for _, t := range s.Connectors {
		if byType[t.Type] == nil {
			byType[t.Type] = map[string]int64{}
			order = append(order, t.Type)
		}
		byType[t.Type][t.Status] = t.Connectors
	}
	rows := [][]string{}
	for _, name := range order {
		row := []string{name}
		for _, status := range statuses() {
			row = append(row, count(byType[name][status]))
		}
		rows = append(rows, row)
	}
	return section(w, append([]string{"CONNECTORS"}, statuses()...), rows, "no connectors")
}

func (s standing) printSystemJobs(w io.Writer) error {
	rows := make([][]string, len(s.SystemJobs))
	for i, j := range s.SystemJobs {
		result := string(j.Result)
		if j.Reason != nil {
			result = printable(*j.Reason)
		} else if result == "null" {
			result = "-"
		}
		rows[i] = []string{strconv.Itoa(int(j.ID)), j.Type, j.Status, orDash(j.Verdict), clock.Optional(j.EndedAt, s.now), clock.Optional(j.NextAt, s.now), clip(result, 100)}
	}
	return section(w, []string{"ID", "SYSTEM JOB", "STATUS", "LAST VERDICT", "ENDED", "NEXT", "RESULT"}, rows, "no system jobs: semantic adds them when it starts")
}

func (s standing) printKeys(w io.Writer) error {
	if len(s.KeysWaited) == 0 {
		return nil
	}
	rows := make([][]string, len(s.KeysWaited))
	for i, k := range s.KeysWaited {
		limit := "-"
		if k.Limit != nil {
			limit = strconv.Itoa(int(*k.Limit))
		}
		rows[i] = []string{k.Key, limit, count(k.Held), count(k.Waiting), clock.Ago(k.Oldest, s.now)}
	}
	return section(w, []string{"KEY WAITED FOR", "MOST", "IN FLIGHT", "WAITING", "OLDEST"}, rows, "")
}

func (s standing) printProblems(w io.Writer) error {
	if len(s.Problems) == 0 {
		return nil
	}
	rows := make([][]string, len(s.Problems))
	for i, problem := range s.Problems {
		rows[i] = []string{problem}
	}
	return section(w, []string{"PROBLEM"}, rows, "")
}

// section writes a table after an empty line, or a sentence where it would be empty.
func section(w io.Writer, header []string, rows [][]string, none string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintf(w, "\n%s\n", none)
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table(w, header, rows)
}

func size(bytes uint64) string {
	const step = 1024
	switch {
	case bytes < step:
		return fmt.Sprintf("%d B", bytes)
	case bytes < step*step:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/step)
	case bytes < step*step*step:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/step/step)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/step/step/step)
}
