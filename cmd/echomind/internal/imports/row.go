// Package imports is what the readers of others' schedules have in common: each gives rows, in terms of connectors. The console compares
// them with what was imported before, and writes them.
package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/echomind/sync/internal/cron"
)

// The bounds of what is read.
const (
	// MaxRows is how many schedules one import may have.
	MaxRows = 10_000
	// MaxBytes is how large a file may be, or all configurations of a database.
	MaxBytes = 16 << 20
	// MaxValue is how many bytes a line or one schedule may have.
	MaxValue = 64 << 10
	// MaxName is how many characters the name of a connector may have.
	MaxName = 200
)

// ErrTooLarge says that there is more than is read.
var ErrTooLarge = errors.New("too large")

// Row is one schedule.
type Row struct {
	// Where says where it stands, for people: line 12.
	Where string
	// Key is what it is known by at the next import; Variant tells those of one key apart, and is by which a row is known again whose key
	// was edited. Without a Variant the key alone counts.
	Key, Variant string
	Name         string
	// Type is empty where the user names it, and so is UserID.
	Type    string
	UserID  int32
	Scope   string
	ScopeID *string
	Config  json.RawMessage
	// Cron with its Zone, or Minutes; neither is manual.
	Cron    *string
	Zone    string
	Minutes *int32
	// Disabled says that it is switched off where it comes from.
	Disabled bool
	// LastRun is when it ran last there.
	LastRun *time.Time
	// Refused says why it cannot be taken; empty where it can.
	Refused string
	// Notes are what its user should know of it.
	Notes []string
}

// Refuse keeps the first reason.
func (r *Row) Refuse(format string, args ...any) {
	if r.Refused == "" {
		r.Refused = fmt.Sprintf(format, args...)
	}
}

// Note adds what its user should know.
func (r *Row) Note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// SetCron refuses an expression that the scheduler would refuse. What H stands for is not known before the connector is there.
func (r *Row) SetCron(expression, zone string) {
	schedule, err := cron.Parse(cron.Spec{Expression: expression, Zone: zone})
	switch {
	case err != nil:
		r.Refuse("%s", strings.TrimPrefix(err.Error(), cron.ErrSchedule.Error()+": "))
	case schedule.Next(time.Now()).IsZero() && !strings.ContainsAny(expression, "hH"):
		r.Refuse("%q never comes due", expression)
	}
	r.Cron, r.Zone = &expression, zone
}

// SetConfig writes an object down.
func (r *Row) SetConfig(object map[string]any) {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		r.Refuse("it cannot be written as JSON: %v", err)
		return
	}
	r.Config = json.RawMessage(strings.TrimSpace(out.String()))
}

// maxDepth is how deep a configuration may be nested, as connectors_config_depth has it.
const maxDepth = 30

// Check refuses what the database would.
func (r *Row) Check() {
	if r.Refused != "" {
		return
	}
	switch length := utf8.RuneCountInString(r.Name); {
	case !utf8.ValidString(r.Name + r.Key):
		r.Refuse("its name is no UTF-8 text")
	case strings.ContainsRune(r.Name+r.Key, 0):
		r.Refuse("its name has a NUL character, which PostgreSQL cannot store")
	case length < 1 || length > MaxName:
		r.Refuse("its name has %d characters; a connector's has 1 to %d", length, MaxName)
	case r.UserID < 1:
		r.Refuse("its user is %d; users are numbered from 1", r.UserID)
	case len(r.Config) > MaxValue:
		r.Refuse("its configuration has %d bytes; a connector's has at most %d", len(r.Config), MaxValue)
	case strings.Contains(string(r.Config), `\u0000`) && hasNUL(r.Config):
		r.Refuse("its configuration has a NUL character, which PostgreSQL cannot store")
	case depth(r.Config) > maxDepth:
		r.Refuse("its configuration is nested more than %d levels deep", maxDepth)
	case r.Minutes != nil && (*r.Minutes < 0 || *r.Minutes > maxMinutes):
		r.Refuse("its interval is %d minutes; the longest is %d", *r.Minutes, maxMinutes)
	}
}

// maxMinutes is the longest interval, as connectors_refresh_range has it.
const maxMinutes = 5256000

func hasNUL(config []byte) bool {
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if text, isText := token.(string); isText && strings.ContainsRune(text, 0) {
			return true
		}
	}
}

func depth(config []byte) (deepest int) {
	decoder := json.NewDecoder(strings.NewReader(string(config)))
	for level := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			level++
			deepest = max(deepest, level)
		case json.Delim('}'), json.Delim(']'):
			level--
		}
	}
}

// Bounded reads up to most bytes of another reader, and then fails with ErrTooLarge.
func Bounded(from io.Reader, most int64) io.Reader {
	return &bounded{from: from, left: most, most: most}
}

type bounded struct {
	from       io.Reader
	left, most int64
}

func (b *bounded) Read(into []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, b.most)
	}
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.from.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return n, fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, b.most)
	}
	return n, err
}
