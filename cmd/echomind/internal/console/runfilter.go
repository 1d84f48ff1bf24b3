package console

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/sdk/lifecycle"
)

// runFilter says which runs somebody wants to see.
type runFilter struct {
	verdicts, types []string
	owner           *int32
	since, until    moment
	// from and to are since and until by Postgres's clock, once it was asked.
	from, to time.Time
}

func verdicts() []string {
	all := make([]string, len(lifecycle.Verdicts))
	for i, v := range lifecycle.Verdicts {
		all[i] = string(v)
	}
	return all
}

func runFilterFlags(c *cobra.Command) *runFilter {
	f := spanFlags(c)
	c.Flags().StringSliceVar(&f.verdicts, "verdict", nil, "only those with one of these verdicts: "+strings.Join(verdicts(), ", "))
	return f
}

// spanFlags are those of a filter that takes runs of every verdict.
func spanFlags(c *cobra.Command) *runFilter {
	f := &runFilter{owner: new(int32)}
	c.Flags().Var(&f.since, "since", "only those that ended so long ago or later, such as 90m, 24h or 7d, or at or after a `TIME` in RFC 3339")
	c.Flags().Var(&f.until, "until", "only those that ended longer ago, or before a `TIME` in RFC 3339")
	c.Flags().StringSliceVar(&f.types, "type", nil, "only those of these `types`")
	c.Flags().Int32Var(f.owner, "owner", 0, "only those of the connectors of this user, by their `number`")
	return f
}

// check refuses values that can never be right. one says that a connector is named.
func (f *runFilter) check(c *cobra.Command, one bool) error {
	for i, verdict := range f.verdicts {
		f.verdicts[i] = strings.ToLower(verdict)
		if !slices.Contains(verdicts(), f.verdicts[i]) {
			return usagef("--verdict %q: must be of %s", clip(verdict, 40), strings.Join(verdicts(), ", "))
		}
	}
	for _, name := range f.types {
		if name == "" || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
			return usagef("--type %q: must be a type that `echomind types list` shows", clip(name, 40))
		}
	}
	switch given := c.Flags().Changed("owner"); {
	case given && *f.owner < 1:
		return usagef("--owner %d: must be a user's number, 1 or more", *f.owner)
	case !given:
		f.owner = nil
	}
	if one && (f.owner != nil || len(f.types) > 0) {
		return usagef("--type and --owner: choose among all connectors; leave them out where one is named")
	}
	// Postgres compares with an empty list, and not with none.
	f.verdicts, f.types = append([]string{}, f.verdicts...), append([]string{}, f.types...)
	return nil
}

// narrows says whether anything is left out.
func (f *runFilter) narrows() bool {
	return f.picks() || !f.since.IsZero() || !f.until.IsZero()
}

// picks says whether runs are left out that lie between others.
func (f *runFilter) picks() bool { return len(f.verdicts)+len(f.types) > 0 || f.owner != nil }

// wants says whether runs of a verdict may match.
func (f *runFilter) wants(verdict lifecycle.Verdict) bool {
	return len(f.verdicts) == 0 || slices.Contains(f.verdicts, string(verdict))
}

// wantsEnded says whether any run that has ended may match.
func (f *runFilter) wantsEnded() bool {
	return len(f.verdicts) == 0 || slices.ContainsFunc(f.verdicts, func(v string) bool { return v != string(lifecycle.Running) })
}

// fix finds what since and until are by Postgres's clock, which it returns, and refuses types that are not known.
func (f *runFilter) fix(ctx context.Context, pool *pgxpool.Pool) (time.Time, error) {
	seen, err := ask(ctx, pool, "now", now)
	if err != nil {
		return seen, fmt.Errorf("read the time: %w", err)
	}
	if err := f.at(seen); err != nil || len(f.types) == 0 {
		return seen, err
	}
	known, err := ask(ctx, pool, "types", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ConnectorType, error) {
		return q.ListConnectorTypes(ctx)
	})
	if err != nil {
		return seen, fmt.Errorf("list the connector types: %w", err)
	}
	return seen, f.checkTypes(typeNames(known))
}

// at finds what since and until are at a moment.
func (f *runFilter) at(seen time.Time) error {
	f.from, f.to = f.since.before(seen), f.until.before(seen)
	if f.until.IsZero() {
		f.to = endOfTime
	}
	if !f.from.Before(f.to) {
		return usagef("--since %s: must be before --until %s, and is not", f.since.text, f.until.text)
	}
	return nil
}

// givenSince and givenUntil are what at has found, where they are given.
func (f *runFilter) givenSince() *time.Time { return whereGiven(f.since, f.from) }

func (f *runFilter) givenUntil() *time.Time { return whereGiven(f.until, f.to) }

func whereGiven(text moment, at time.Time) *time.Time {
	if text.IsZero() {
		return nil
	}
	return &at
}

func (f *runFilter) checkTypes(known []string) error {
	for _, name := range f.types {
		if !slices.Contains(known, name) {
			return notKnown(name, known)
		}
	}
	return nil
}

// takes says whether a run matches.
func (f *runFilter) takes(r run) bool {
	if !f.wants(lifecycle.Verdict(r.Status)) || len(f.types) > 0 && !slices.Contains(f.types, r.Type) {
		return false
	}
	if r.CompletedAt == nil {
		return f.until.IsZero()
	}
	return !r.CompletedAt.Before(f.from) && r.CompletedAt.Before(f.to)
}

// endOfTime is after every run.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// moment is the value of --since and --until: so long ago, or a time.
type moment struct {
	text string
	ago  time.Duration
	at   time.Time
}

// maxAgo is as far back as a moment may be named by how long ago it was.
const maxAgo = 3650 * 24 * time.Hour

var (
	momentForm = regexp.MustCompile(`^(?:\d+[smhd])+$`)
	momentPart = regexp.MustCompile(`(\d+)([smhd])`)
	momentUnit = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	errMoment  = errors.New("write how long ago, such as 90m, 24h or 7d, or a time such as 2026-11-23T09:00:00Z")
)

// Set is part of pflag.Value.
func (m *moment) Set(text string) error {
	*m = moment{text: text}
	if !momentForm.MatchString(text) {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil || at.Year() < 2000 || !at.Before(endOfTime) {
			return errMoment
		}
		m.at = at
		return nil
	}
	for _, part := range momentPart.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(part[1], 10, 64)
		if err != nil || n > int64(maxAgo/momentUnit[part[2]]) {
			return errors.New("must be at most 3650d ago")
		}
		if m.ago += time.Duration(n) * momentUnit[part[2]]; m.ago > maxAgo {
			return errors.New("must be at most 3650d ago")
		}
	}
	return nil
}

func (m *moment) String() string { return m.text }

// Type is part of pflag.Value.
func (m *moment) Type() string { return "TIME" }

// IsZero says that none is given.
func (m *moment) IsZero() bool { return m.text == "" }

// before is the moment as of another; the zero time where none is given.
func (m *moment) before(now time.Time) time.Time {
	switch {
	case m.IsZero():
		return time.Time{}
	case m.at.IsZero():
		return now.Add(-m.ago)
	}
	return m.at
}
