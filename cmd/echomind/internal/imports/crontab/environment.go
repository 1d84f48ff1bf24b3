package crontab

import (
	"maps"
	"regexp"
	"strings"
)

// The bounds of an environment, which each job that follows is given.
const (
	maxVariables   = 200
	maxEnvironment = 16 << 10
)

// environment is what the lines before a job have set. Its map is never changed: jobs hold it.
type environment struct {
	values map[string]string
	bytes  int
}

// set says whether there was room.
func (e *environment) set(name, value string) bool {
	old, stood := e.values[name]
	bytes := e.bytes + len(value) - len(old)
	if !stood {
		bytes += len(name)
	}
	if bytes > maxEnvironment || len(e.values) >= maxVariables && !stood {
		return false
	}
	next := maps.Clone(e.values)
	if next == nil {
		next = map[string]string{}
	}
	next[name] = value
	e.values, e.bytes = next, bytes
	return true
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// assignment reads NAME = value. Both may be in quotes, which keep blanks at the value's ends; nothing in it is expanded.
func assignment(text string) (name, value string, is bool) {
	name, rest, quoted := unquoted(text)
	if !quoted {
		end := strings.IndexAny(text, " \t=")
		if end < 0 {
			return "", "", false
		}
		name, rest = text[:end], text[end:]
	}
	value, is = strings.CutPrefix(strings.TrimLeft(rest, " \t"), "=")
	if !is || !variableName.MatchString(name) {
		return "", "", false
	}
	value = strings.TrimLeft(value, " \t")
	if value == "" || value[0] != '"' && value[0] != '\'' {
		return name, strings.TrimRight(value, " \t"), true
	}
	value, rest, quoted = unquoted(value)
	return name, value, quoted && strings.TrimRight(rest, " \t") == ""
}

// unquoted is what stands between the quotes that a text begins with, and what follows them.
func unquoted(text string) (inner, rest string, is bool) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return "", text, false
	}
	inner, rest, is = strings.Cut(text[1:], text[:1])
	return inner, rest, is
}
