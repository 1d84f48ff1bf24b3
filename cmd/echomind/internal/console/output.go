package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// output is what -o chooses.
type output string

const (
	forPeople   output = "table"
	allColumns  output = "wide"
	forPrograms output = "json"
)

// terminalWidth is how wide a table may be that is not asked for with all columns.
const terminalWidth = 80

func (o *output) String() string { return string(*o) }

// Type is part of pflag.Value.
func (o *output) Type() string { return "table|wide|json" }

// Set is part of pflag.Value.
func (o *output) Set(value string) error {
	switch output(value) {
	case forPeople, allColumns, forPrograms:
		*o = output(value)
		return nil
	}
	return fmt.Errorf("must be table, wide or json")
}

// withOutput gives a command the flag -o.
func withOutput(c *cobra.Command) *output {
	o := forPeople
	c.Flags().VarP(&o, "output", "o", "table for people, wide for all of it, json for programs")
	return &o
}

// show writes value as JSON for programs, and for people what table writes.
func (o output) show(w io.Writer, value any, people func(io.Writer) error) error {
	if o != forPrograms {
		return people(w)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(escaped(text.Bytes()))
	return err
}

// escaped is JSON in which what would change a terminal stands as \u escapes: JSON leaves C1 controls and what turns text round as they are.
func escaped(text []byte) []byte {
	special := func(r rune) bool { return r >= 0x7f && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }
	if bytes.IndexFunc(text, special) < 0 {
		return text
	}
	var out bytes.Buffer
	for _, r := range string(text) {
		switch high, low := utf16.EncodeRune(r); {
		case !special(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

// printable replaces what would move the cursor or change the terminal: names and texts come from anywhere.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '\uFFFD'
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)
}

// clip cuts a text to a number of characters.
func clip(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

func orDash(text *string) string {
	if text == nil || *text == "" {
		return "-"
	}
	return *text
}
