package console

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

const (
	// columnGap is the space between two columns.
	columnGap = 2
	// narrowest is how far a column is cut, unless its header is longer.
	narrowest  = 6
	noteIndent = "    "
)

// table writes aligned columns.
func table(w io.Writer, header []string, rows [][]string) error { return noted(w, header, rows, nil) }

// noted writes aligned columns, and below each row its note, if it has one.
func noted(w io.Writer, header []string, rows [][]string, notes []string) error {
	var aligned strings.Builder
	tabs := tabwriter.NewWriter(&aligned, 0, 0, columnGap, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable(cell)
		}
		if _, err := fmt.Fprintln(tabs, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	if err := tabs.Flush(); err != nil {
		return err
	}
	for i, line := range strings.SplitAfter(aligned.String(), "\n") {
		if i > 0 && i <= len(notes) {
			line += wrapped(notes[i-1])
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// fitted writes a table that fits a terminal: the widest columns are cut in their middle, where names differ least, and
// notes are wrapped.
func fitted(w io.Writer, header []string, rows [][]string, notes []string) error {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(printable(cell)))
		}
	}
	for total(widths) > terminalWidth {
		widest := 0
		for i, width := range widths {
			if width > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= max(narrowest, len(header[widest])) {
			break
		}
		widths[widest]--
	}
	cut := make([][]string, len(rows))
	for r, row := range rows {
		cut[r] = make([]string, len(row))
		for i, cell := range row {
			cut[r][i] = clipMiddle(printable(cell), widths[i])
		}
	}
	return noted(w, header, cut, notes)
}

func total(widths []int) int {
	sum := columnGap * (len(widths) - 1)
	for _, width := range widths {
		sum += width
	}
	return sum
}

// clipMiddle cuts a text to a number of characters, and keeps its beginning and its end.
func clipMiddle(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	end := (most - 1) / 2
	return string(runes[:most-1-end]) + "…" + string(runes[len(runes)-end:])
}

// wrapped breaks a note into indented lines of a terminal's width.
func wrapped(note string) string {
	var lines strings.Builder
	width := 0
	for _, word := range strings.Fields(printable(note)) {
		length := utf8.RuneCountInString(word)
		switch {
		case width == 0:
			lines.WriteString(noteIndent)
			width = len(noteIndent)
		case width+1+length > terminalWidth:
			lines.WriteString("\n" + noteIndent)
			width = len(noteIndent)
		default:
			lines.WriteByte(' ')
			width++
		}
		lines.WriteString(word)
		width += length
	}
	if width > 0 {
		lines.WriteByte('\n')
	}
	return lines.String()
}
