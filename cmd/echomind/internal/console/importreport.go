package console

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
	"github.com/echomind/sync/internal/secret"
)

// What becomes of a row.
const (
	rowCreated   = "created"
	rowUnchanged = "unchanged"
	rowChanged   = "changed"
	rowRefused   = "refused"
	// rowGone is what was imported earlier and is not there any more: nothing is done about it.
	rowGone = "gone"
)

var rowActions = []string{rowCreated, rowChanged, rowUnchanged, rowRefused, rowGone}

// importReport is what programs are shown of an import.
type importReport struct {
	Source string `json:"source"`
	Origin string `json:"origin"`
	// Applied says that it was written.
	Applied bool           `json:"applied"`
	Counts  map[string]int `json:"counts"`
	// PassedOver is how many keys of a dump are none of a schedule.
	PassedOver int         `json:"passed_over"`
	Hint       string      `json:"hint,omitempty"`
	Rows       []importRow `json:"rows"`
}

// importRow is one row of the report. No secret is in it.
type importRow struct {
	Where    string   `json:"where"`
	Action   string   `json:"action"`
	ID       *int32   `json:"id"`
	Name     string   `json:"name"`
	Schedule string   `json:"schedule"`
	Changes  []string `json:"changes"`
	Reason   string   `json:"reason,omitempty"`
	Notes    []string `json:"notes"`
}

func reported(row imports.Row) importRow {
	r := importRow{Where: secret.Text(row.Where), Name: clip(secret.Text(row.Name), imports.MaxName), Changes: []string{}, Notes: []string{}}
	if row.Refused == "" {
		r.Schedule = scheduleOf(row)
	}
	for _, note := range row.Notes {
		r.Notes = append(r.Notes, secret.Text(note))
	}
	return r
}

func scheduleOf(row imports.Row) string {
	switch {
	case row.Cron != nil:
		return *row.Cron + " " + row.Zone
	case row.Minutes == nil:
		return "manual"
	}
	return every(*row.Minutes)
}

func (r *importReport) add(row importRow, action, reason string) {
	row.Action, row.Reason = action, secret.Text(reason)
	r.Counts[action]++
	r.Rows = append(r.Rows, row)
}

func (r *importReport) show(w io.Writer, how output) error {
	return how.show(w, r, func(w io.Writer) error {
		rows, notes := make([][]string, len(r.Rows)), make([]string, len(r.Rows))
		for i, row := range r.Rows {
			id := "-"
			if row.ID != nil {
				id = strconv.Itoa(int(*row.ID))
			}
			rows[i] = []string{row.Where, row.Action, id, row.Name, orDash(&row.Schedule)}
			notes[i] = strings.Join(append(append(nonEmpty(row.Reason), row.Changes...), row.Notes...), "; ")
		}
		write := fitted
		if how == allColumns {
			write = noted
		}
		if err := write(w, []string{"ROW", "WHAT", "ID", "NAME", "SCHEDULE"}, rows, notes); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, printable(r.summary()))
		return err
	})
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

func (r *importReport) summary() string {
	var all []string
	for _, action := range rowActions {
		if n := r.Counts[action]; n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, action))
		}
	}
	if len(all) == 0 {
		all = append(all, "nothing to import")
	}
	text := fmt.Sprintf("origin %s: %s", r.Origin, strings.Join(all, ", "))
	if r.PassedOver > 0 {
		text += fmt.Sprintf("; %d keys are no entries", r.PassedOver)
	}
	if !r.Applied {
		text += "; nothing was written: --apply does"
	}
	if r.Hint != "" {
		text += ". " + r.Hint
	}
	return text
}
