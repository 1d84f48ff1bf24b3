package icalendar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	ics "github.com/arran4/golang-ical"
)

const (
	// maxDepth is how deep components may be nested: a calendar has events, and these alarms.
	maxDepth = 8
	// A line of more bytes than shortLine has at most maxParameters parameters and values of parameters.
	shortLine, maxParameters = 256, 50
)

// check refuses files whose parsing would cost more than their size: the parser takes memory by the square of what is not ended, and of the parameters of a line.
func check(file []byte) error {
	lines := ics.NewCalendarStream(bytes.NewReader(file))
	var within []string
	for n := 1; ; n++ {
		read, err := lines.ReadLine()
		if read != nil && len(*read) > 0 {
			line := strings.TrimRight(string(*read), "\r\n")
			if within, err = nest(within, line); err != nil {
				return fmt.Errorf("content line %d %w", n, err)
			}
			if len(line) > shortLine && !hasFewParameters(line) {
				return fmt.Errorf("content line %d has more than %d parameters, or a \\ in them, in %d bytes", n, maxParameters, len(line))
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// nest is what is begun and not ended yet after a line.
func nest(within []string, line string) ([]string, error) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.ToUpper(value)
	switch {
	case strings.EqualFold(name, "END"):
		if len(within) == 0 || within[len(within)-1] != value {
			return nil, fmt.Errorf("ends %s, which was not begun last", clean(value))
		}
		return within[:len(within)-1], nil
	case !strings.Contains(strings.ToUpper(name), "BEGIN"):
		return within, nil
	case len(within) == maxDepth:
		return nil, fmt.Errorf("begins %s: components are nested more than %d deep", clean(value), maxDepth)
	}
	return append(within, value), nil
}

// hasFewParameters says whether it is sure where a line's parameters end, and that there are not many.
func hasFewParameters(line string) bool {
	n, isQuoted := 0, false
	for _, c := range []byte(line) {
		switch {
		case c == '\\' || n > maxParameters:
			return false
		case c == '"':
			isQuoted = !isQuoted
		case isQuoted:
		case c == ':':
			return true
		case c == ';' || c == ',':
			n++
		}
	}
	return false
}
