package redbeat

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
	"github.com/echomind/sync/internal/timezone"
)

// definition is what RedBeatSchedulerEntry.save writes.
type definition struct {
	Name     string          `json:"name"`
	Task     *string         `json:"task"`
	Args     json.RawMessage `json:"args"`
	Kwargs   json.RawMessage `json:"kwargs"`
	Options  json.RawMessage `json:"options"`
	Schedule json.RawMessage `json:"schedule"`
	Enabled  *bool           `json:"enabled"`
}

// row reads an entry. Its texts may be JSON within JSON, as Redis has them.
func (r *reader) row(key string, text, meta json.RawMessage) imports.Row {
	row := imports.Row{Where: "key " + clip(key), Key: strings.TrimPrefix(key, r.Prefix), Scope: "user", Zone: r.Zone}
	row.Name = row.Key
	var d definition
	if err := within(text, &d); err != nil {
		row.Refuse("its definition cannot be read: %v", err)
		return row
	}
	if row.Key == "" {
		row.Key = d.Name
	}
	if d.Name != "" {
		row.Name = d.Name
	}
	if key == "" {
		row.Where = "entry " + clip(row.Name)
	}
	row.Disabled = d.Enabled != nil && !*d.Enabled
	switch {
	case row.Key == "":
		row.Refuse("it has no name")
	case d.Task == nil || *d.Task == "":
		row.Refuse("it has no task")
	default:
		r.configure(&row, d)
		r.schedule(&row, d.Schedule)
		lastRun(&row, meta)
	}
	return row
}

// within reads a value, or the text that it is written as. Python writes numbers that are none of JSON's.
func within(value json.RawMessage, into any) error {
	if text, isText := unquoted(value); isText {
		value = json.RawMessage(text)
	}
	if len(value) > imports.MaxValue {
		return fmt.Errorf("it has more than %d bytes", imports.MaxValue)
	}
	if halfPair(value) {
		return errors.New("it has half a surrogate pair, which is no character")
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return badJSON(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// halfPair says whether an escape such as \ud800 stands alone. Our decoder would put another character in its place.
func halfPair(value []byte) bool {
	var high rune
	for i := 0; i < len(value); i++ {
		escaped := rune(-1)
		if value[i] == '\\' && i+1 < len(value) {
			if i++; value[i] == 'u' && i+4 < len(value) {
				n, _ := strconv.ParseUint(string(value[i+1:i+5]), 16, 16)
				escaped, i = rune(n), i+4
			}
		}
		switch isHigh, isLow := escaped>>10 == 0xd800>>10, escaped>>10 == 0xdc00>>10; {
		case (high != 0) != isLow:
			return true
		case isHigh:
			high = escaped
		default:
			high = 0
		}
	}
	return high != 0
}

// configure keeps the task with its arguments as they are.
func (r *reader) configure(row *imports.Row, d definition) {
	args, kwargs, options := []any{}, map[string]any{}, map[string]any{}
	for _, of := range []struct {
		name, is string
		value    json.RawMessage
		into     any
	}{{"args", "a list", d.Args, &args}, {"kwargs", "an object", d.Kwargs, &kwargs}, {"options", "an object", d.Options, &options}} {
		if len(of.value) > 0 && within(of.value, of.into) != nil {
			row.Refuse("its %s must be %s", of.name, of.is)
		}
	}
	if args == nil {
		args = []any{}
	}
	if kwargs == nil {
		kwargs = map[string]any{}
	}
	config := map[string]any{"task": *d.Task, "args": args, "kwargs": kwargs}
	if len(options) > 0 {
		config["options"] = options
	}
	if where := pickled(config, ""); where != "" {
		row.Refuse("%s is a pickled function of Python, which nothing here can call", strings.TrimPrefix(where, "."))
	}
	row.SetConfig(config)
}

// pickled is where a BeatLazyFunc stands, which RedBeat writes as the base64 of its pickle.
func pickled(value any, path string) string {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if found := pickled(inner, path+"."+name); found != "" {
				return found
			}
		}
	case []any:
		for i, inner := range v {
			if found := pickled(inner, fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	case string:
		const proto, stop = 0x80, '.'
		if b, err := base64.StdEncoding.DecodeString(v); err == nil && len(b) > 3 && b[0] == proto && b[1] >= 2 && b[1] <= 5 && b[len(b)-1] == stop {
			return path
		}
	}
	return ""
}

// schedule reads what __type__ names.
func (r *reader) schedule(row *imports.Row, text json.RawMessage) {
	object := map[string]any{}
	if len(text) == 0 || string(text) == "null" {
		row.Refuse("it has no schedule")
		return
	}
	if seconds, err := strconv.ParseFloat(string(text), 64); err == nil { // as beat_schedule has it
		interval(row, seconds, false, r.Zone)
		return
	}
	if err := within(text, &object); err != nil {
		row.Refuse("its schedule cannot be read: %v", err)
		return
	}
	switch kind, _ := object["__type__"].(string); kind {
	case "crontab":
		r.crontab(row, object)
	case "interval":
		every, isNumber := object["every"].(json.Number)
		seconds, err := every.Float64()
		if !isNumber || err != nil {
			row.Refuse("its interval has no number of seconds")
			return
		}
		relative, _ := object["relative"].(bool)
		interval(row, seconds, relative, r.Zone)
	case "solar":
		row.Refuse("solar: the sun's times are none of the clock; write a crontab near them")
	case "rrule":
		row.Refuse("rrule: recurring rules are not read; write a crontab")
	case "clocked":
		row.Refuse("clocked: it runs once, at a moment; add a connector and trigger it then")
	case "":
		row.Refuse("its schedule has no __type__")
	default:
		row.Refuse("its schedule is of type %q; crontab and interval are read", clip(kind))
	}
}

// interval takes whole minutes. Where it is relative Celery rounds each time down to the unit of the interval, which is a time of the clock.
func interval(row *imports.Row, seconds float64, relative bool, zone string) {
	const longest = 5256000 * 60
	if math.IsNaN(seconds) || seconds < 60 || seconds > longest || math.Mod(seconds, 60) != 0 {
		row.Refuse("it runs every %s s; an interval is of whole minutes, from one on and up to ten years", strconv.FormatFloat(seconds, 'f', -1, 64))
		return
	}
	minutes := int32(seconds / 60)
	if !relative {
		row.Minutes = &minutes
		return
	}
	var every string
	switch {
	case minutes < 60 && 60%minutes == 0:
		every = "*/" + strconv.Itoa(int(minutes)) + " * * * *"
	case minutes%60 == 0 && minutes < 24*60 && 24*60%minutes == 0:
		every = "0 */" + strconv.Itoa(int(minutes/60)) + " * * *"
	case minutes == 24*60:
		every = "0 0 * * *"
	default:
		row.Refuse("it is relative, and its %d minutes divide neither an hour nor a day: Celery's times depend on when it was started; write a crontab", minutes)
		return
	}
	row.SetCron(strings.ReplaceAll(every, "*/1 ", "* "), zone)
	row.Note("relative: Celery rounds its times down, and begins to count when it is started; here they begin at midnight")
}

// lastRun reads {"last_run_at": {"__type__": "datetime", …}}; a meta that cannot be read is none.
func lastRun(row *imports.Row, meta json.RawMessage) {
	var m struct {
		LastRunAt *struct {
			Year, Month, Day, Hour, Minute, Second, Microsecond int
			Timezone                                            any
		} `json:"last_run_at"`
	}
	if len(meta) == 0 {
		return
	}
	if err := within(meta, &m); err != nil {
		row.Note("when it ran last cannot be read: %v", err)
		return
	}
	if m.LastRunAt == nil {
		return
	}
	at, zone := *m.LastRunAt, time.UTC
	switch z := at.Timezone.(type) {
	case json.Number: // seconds east of UTC
		if offset, err := z.Float64(); err == nil && math.Abs(offset) < 24*60*60 {
			zone = time.FixedZone("", int(offset))
		}
	case string:
		location, err := timezone.Load(z)
		if err != nil {
			row.Note("when it ran last is not known: its zone is %q", clip(z))
			return
		}
		zone = location
	}
	last := time.Date(at.Year, time.Month(at.Month), at.Day, at.Hour, at.Minute, at.Second, at.Microsecond*1000, zone).UTC()
	if last.Year() < 2000 || last.After(time.Now().Add(24*time.Hour)) {
		row.Note("when it ran last is not believed: %s", last.Format(time.RFC3339))
		return
	}
	row.LastRun = &last
}
