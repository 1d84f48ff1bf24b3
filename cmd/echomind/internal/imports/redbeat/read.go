// Package redbeat reads the schedules of celery-beat as RedBeat keeps them in Redis, from a dump in JSON: a hash for each entry, whose
// definition is its task and its schedule, and whose meta is when it ran last (redbeat/schedulers.py and redbeat/decoder.py of
// sibson/redbeat; celery/schedules.py says what the schedules mean).
package redbeat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
)

// Options are what a dump does not say itself.
type Options struct {
	// Prefix is redbeat_key_prefix: what the keys of entries begin with.
	Prefix string
	// Zone is the application's time zone.
	Zone string
}

// maxKeys bounds also a dump of a Redis that holds other things.
const maxKeys = 200_000

// Read gives a row for each entry. A dump is one JSON value, or several that follow each other: an object from keys to values; a list of
// these, or of entries; or entries. An entry is {"key": …, "value": …} as redis-dump writes it, a hash with definition and meta,
// or a definition. Keys that are none of RedBeat's are counted, and passed over.
func Read(from io.Reader, o Options) (rows []imports.Row, others int, err error) {
	r := &reader{Options: o, decoder: json.NewDecoder(imports.Bounded(from, imports.MaxBytes))}
	r.decoder.UseNumber()
	for {
		err := r.value(0)
		switch {
		case errors.Is(err, io.EOF):
			return r.rows, r.others, nil
		case err != nil:
			return nil, 0, err
		}
	}
}

type reader struct {
	Options
	decoder *json.Decoder
	rows    []imports.Row
	others  int
	seen    int
}

// fields are those of entries: an object whose first key is one of them is an entry, any other goes from keys to values.
var fields = map[string]bool{"db": true, "key": true, "ttl": true, "type": true, "value": true, "size": true, "name": true, "task": true,
	"schedule": true, "args": true, "kwargs": true, "options": true, "enabled": true, "definition": true, "meta": true}

// value reads a dump, or a list within it.
func (r *reader) value(depth int) error {
	token, err := r.decoder.Token()
	if err != nil {
		return badJSON(err)
	}
	switch {
	case token == json.Delim('[') && depth < 2:
		for r.decoder.More() {
			if err := r.value(depth + 1); err != nil {
				return unexpected(err)
			}
		}
	case token == json.Delim('{'):
		if err := r.object(); err != nil {
			return unexpected(err)
		}
	default:
		return fmt.Errorf("a dump is an object, or a list of objects, and this has %s", clip(fmt.Sprint(token)))
	}
	_, err = r.decoder.Token() // the end
	return unexpected(badJSON(err))
}

func badJSON(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("it is not JSON: %w, at byte %d", err, syntax.Offset)
	}
	return err
}

// unexpected tells the end in the middle from the end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// object reads what follows the brace.
func (r *reader) object() error {
	entry := map[string]json.RawMessage{}
	isEntry := false
	for first := true; r.decoder.More(); first = false {
		token, err := r.decoder.Token()
		if err != nil {
			return badJSON(err)
		}
		key, _ := token.(string)
		isEntry = first && fields[key] || isEntry
		var value json.RawMessage
		if err := r.decoder.Decode(&value); err != nil {
			return badJSON(err)
		}
		if isEntry {
			entry[key] = value
		} else if err := r.keyed(key, value); err != nil {
			return err
		}
	}
	if isEntry {
		return r.entry(entry)
	}
	return nil
}

// entry reads an object that is one: of redis-dump, a hash, or a definition.
func (r *reader) entry(entry map[string]json.RawMessage) error {
	var key string
	_ = json.Unmarshal(entry["key"], &key)
	if value, dumped := entry["value"]; dumped {
		return r.keyed(key, value)
	}
	if entry["definition"] == nil && entry["task"] == nil {
		return r.add(imports.Row{Where: fmt.Sprintf("entry %d", len(r.rows)+1), Key: key, Name: key, Refused: "it has neither a definition nor a task"})
	}
	whole, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	return r.keyed(key, whole)
}

// keyed reads what stands under a key.
func (r *reader) keyed(key string, value json.RawMessage) error {
	if r.seen++; r.seen > maxKeys {
		return fmt.Errorf("%w: it has more than %d keys", imports.ErrTooLarge, maxKeys)
	}
	hash := map[string]json.RawMessage{}
	if text, isText := unquoted(value); isText { // a hash that was written as a text
		value = json.RawMessage(text)
	}
	if json.Unmarshal(value, &hash) != nil || hash["definition"] == nil && hash["task"] == nil {
		if r.ours(key) {
			return r.add(imports.Row{Where: "key " + clip(key), Key: key, Name: key, Refused: "it has neither a definition nor a task"})
		}
		r.others++
		return nil
	}
	definition := hash["definition"]
	if definition == nil {
		definition = value
	}
	return r.add(r.row(key, definition, hash["meta"]))
}

// ours says whether a key is one of an entry: RedBeat's own lists begin with another colon.
func (r *reader) ours(key string) bool {
	rest, ours := strings.CutPrefix(key, r.Prefix)
	return r.Prefix != "" && ours && !strings.HasPrefix(rest, ":")
}

func (r *reader) add(row imports.Row) error {
	if len(r.rows) == imports.MaxRows {
		return fmt.Errorf("%w: it has more than %d entries", imports.ErrTooLarge, imports.MaxRows)
	}
	r.rows = append(r.rows, row)
	return nil
}

func unquoted(value json.RawMessage) (text string, is bool) {
	is = len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil
	return text, is
}

func clip(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
