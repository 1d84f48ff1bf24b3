// Package crontab reads crontabs of users and of systems, as crontab(5) of Vixie's line describes them and cronie 1.5 reads them. What
// means something else here than there is refused: a job that runs at other times than before is worse than one that a person
// has to look at.
package crontab

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/timezone"
)

// Options are what a crontab does not say itself.
type Options struct {
	// System says that each line names a user before its command, as in /etc/crontab and /etc/cron.d.
	System bool
	// Zone is the time zone of the machine's clock, where CRON_TZ does not name another.
	Zone string
}

// maxLines bounds also a file of empty lines.
const maxLines = 100_000

// nameLength is how long the name is that a command without one is given.
const nameLength = 80

// Read gives a row for each line that is neither empty, nor a comment, nor sets the environment.
func Read(from io.Reader, o Options) ([]imports.Row, error) {
	p := &parser{Options: o, zone: o.Zone}
	lines := bufio.NewReaderSize(imports.Bounded(from, imports.MaxBytes), imports.MaxValue+2)
	for {
		text, tooLong, err := line(lines)
		if errors.Is(err, io.EOF) && text == "" && !tooLong {
			return p.rows, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if p.number++; p.number > maxLines {
			return nil, fmt.Errorf("%w: it has more than %d lines", imports.ErrTooLarge, maxLines)
		}
		p.line(text, tooLong)
		if len(p.rows) > imports.MaxRows {
			return nil, fmt.Errorf("%w: it has more than %d jobs", imports.ErrTooLarge, imports.MaxRows)
		}
	}
}

// line reads a line without its end. Of one that is too long the rest is passed over.
func line(from *bufio.Reader) (text string, tooLong bool, err error) {
	part, err := from.ReadSlice('\n')
	text = strings.TrimRight(string(part), "\r\n")
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		_, err = from.ReadSlice('\n')
	}
	return text, tooLong || len(text) > imports.MaxValue, err
}

type parser struct {
	Options
	number int
	rows   []imports.Row
	// zone is of the lines that follow; wrongZone says why there is none.
	zone, wrongZone string
	env             environment
	// name is that of the comment right before the line.
	name string
}

var nameComment = regexp.MustCompile(`^#+[ \t]*(?i:name):[ \t]*(.*?)[ \t]*$`)

func (p *parser) line(text string, tooLong bool) {
	if p.number == 1 {
		text = strings.TrimPrefix(text, "\uFEFF")
	}
	text = strings.TrimLeft(text, " \t\f\v")
	name := p.name
	p.name = ""
	switch {
	case text == "" && !tooLong:
		return
	case strings.HasPrefix(text, "#"):
		if found := nameComment.FindStringSubmatch(text); found != nil && !tooLong {
			p.name = found[1]
		}
		return
	}
	row := imports.Row{Where: fmt.Sprintf("line %d", p.number), Scope: "user", Zone: p.zone}
	switch {
	case tooLong:
		row.Refuse("it has more than %d bytes", imports.MaxValue)
	case !utf8.ValidString(text):
		row.Refuse("it is no UTF-8 text")
	case strings.ContainsRune(text, 0):
		row.Refuse("it has a NUL character")
	default:
		if variable, value, is := assignment(text); is {
			p.set(&row, variable, value)
			if row.Refused == "" {
				return
			}
		} else {
			p.job(&row, text, name)
		}
	}
	if row.Name == "" {
		row.Name = named(text)
	}
	if row.Key == "" { // refused, and never stored
		row.Key = row.Where
	}
	p.rows = append(p.rows, row)
}

// set takes an assignment for the lines that follow.
func (p *parser) set(row *imports.Row, variable, value string) {
	if variable != "CRON_TZ" {
		if !p.env.set(variable, value) {
			row.Name = variable
			row.Refuse("the environment has more than %d variables, or %d bytes", maxVariables, maxEnvironment)
		}
		return
	}
	p.zone, p.wrongZone = value, ""
	if value == "" {
		p.zone = p.Zone
	} else if _, err := timezone.Load(value); err != nil {
		p.wrongZone = fmt.Sprintf("line %d sets CRON_TZ to %q, which is no IANA name such as Europe/Berlin", p.number, short(value))
	}
}

// words that could be one of a schedule's fields, and hardly begin a command.
var fieldLike = regexp.MustCompile(`^(?:[*?0-9][0-9*/,?#LW-]*|(?i:sun|mon|tue|wed|thu|fri|sat)[-,#][0-9A-Za-z,#-]+)$`)

var (
	userName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\$?$`)
	steppedOne = regexp.MustCompile(`(?:^|,)[0-9A-Za-z]+/`)
)

func (p *parser) job(row *imports.Row, text, name string) {
	if rest, quiet := strings.CutPrefix(text, "-"); quiet { // cron does not log it
		text = rest
	}
	schedule, rest := p.schedule(row, text)
	user := ""
	if p.System && row.Refused == "" {
		user, rest = word(rest)
		if !userName.MatchString(user) {
			row.Refuse("after the schedule of a system's crontab comes a user, and %q is none", short(user))
		}
	}
	if rest == "" {
		row.Refuse("it has no command")
	}
	if first, _ := word(rest); !p.System && first == "root" {
		row.Refuse("its command begins with root: a system's crontab is read with --system")
	}
	if p.wrongZone != "" {
		row.Refuse("%s", p.wrongZone)
	}
	if row.Refused != "" {
		return
	}
	row.SetCron(schedule, p.zone)
	p.describe(row, user, rest, name)
}

// schedule splits a line behind its schedule.
func (p *parser) schedule(row *imports.Row, text string) (schedule, rest string) {
	first, rest := word(text)
	switch {
	case first == "@reboot":
		row.Refuse("@reboot is no time: nothing here knows when a machine starts")
		return first, rest
	case first == "@every_minute": // FreeBSD's
		return "* * * * *", rest
	case strings.HasPrefix(first, "@"):
		return first, rest
	}
	fields := []string{first}
	for len(fields) < 5 && rest != "" {
		first, rest = word(rest)
		fields = append(fields, first)
	}
	if len(fields) < 5 {
		row.Refuse("a line is an assignment, or five fields of time and a command, and it has %d words", len(fields))
		return "", ""
	}
	sixth, after := word(rest)
	seventh, _ := word(after)
	dayOfMonth, dayOfWeek := fields[2], fields[4]
	switch {
	case fieldLike.MatchString(sixth) && fieldLike.MatchString(seventh):
		row.Refuse("it has seven fields of time: a crontab has five, without seconds and years")
	case fieldLike.MatchString(sixth):
		row.Refuse("it has six fields of time: a crontab has five, without seconds")
	case strings.Contains(strings.Join(fields, " "), "~"):
		row.Refuse("a random time such as 0~59 is not known here: write H(0-59), which each connector has a time of its own for")
	case !whole(dayOfMonth) && !whole(dayOfWeek) && strings.Contains(dayOfMonth+dayOfWeek, "*"):
		row.Refuse("both days are restricted, and one has *: cron wants both then, and here either is enough; write one of them without *, or leave the other open")
	}
	for _, field := range fields {
		if steppedOne.MatchString(field) {
			row.Refuse("crons disagree about %q: write where it ends, such as 5-59/10", short(field))
		}
	}
	return strings.Join(fields, " "), rest
}

func whole(day string) bool { return day == "*" || day == "?" || day == "*/1" }

// describe says what the job is.
func (p *parser) describe(row *imports.Row, user, rest, name string) {
	command, input, hasInput := split(rest)
	config := map[string]any{"command": command}
	if hasInput {
		config["stdin"] = input
	}
	if user != "" {
		config["user"] = user
	}
	if len(p.env.values) > 0 {
		config["env"] = p.env.values
	}
	row.SetConfig(config)
	if _, given := p.env.values["TZ"]; given && p.zone == p.Zone {
		row.Note("TZ is the command's, as in cron; its schedule is read in %s", p.zone)
	}
	if _, given := p.env.values["RANDOM_DELAY"]; given {
		row.Note("RANDOM_DELAY does nothing here: write H into the schedule")
	}
	if name != "" {
		row.Name, row.Key = name, "name:"+name
		return
	}
	row.Name = named(command)
	sum := sha256.Sum256([]byte(user + "\x00" + rest))
	row.Key, row.Variant = "command:"+hex.EncodeToString(sum[:16]), strings.TrimSpace(user+" "+*row.Cron+" "+row.Zone)
}

// named is what a line without a name is called: where somebody reads it, its secrets are not.
func named(text string) string {
	text = strings.Join(strings.Fields(secret.Text(strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", " "), "\uFFFD"))), " ")
	return short(text)
}

func short(text string) string {
	if runes := []rune(text); len(runes) > nameLength {
		return string(runes[:nameLength-1]) + "…"
	}
	return text
}

// word is the first word of a text, and what follows the blanks behind it.
func word(text string) (first, rest string) {
	end := strings.IndexAny(text, " \t")
	if end < 0 {
		return text, ""
	}
	return text[:end], strings.TrimLeft(text[end:], " \t")
}

// split takes what follows the first % that has no backslash for the command's input, in which each further % begins a line.
func split(text string) (command, input string, hasInput bool) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			if i++; text[i] != '%' {
				out.WriteByte('\\')
			}
			out.WriteByte(text[i])
		case text[i] == '%' && !hasInput:
			command, hasInput = out.String(), true
			out.Reset()
		case text[i] == '%':
			out.WriteByte('\n')
		default:
			out.WriteByte(text[i])
		}
	}
	if !hasInput {
		return out.String(), "", false
	}
	return command, strings.TrimSuffix(out.String(), "\n") + "\n", true
}
