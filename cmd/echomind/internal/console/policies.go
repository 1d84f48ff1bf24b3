package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/slots"
)

// none takes a policy away.
const none = "none"

var (
	overlaps = []string{slots.OverlapSkip, slots.OverlapQueue}
	periods  = []string{string(slots.Day), string(slots.Week), string(slots.Month), none}
	uses     = []string{slots.Exclude, slots.Only}
	catchUps = []string{slots.CatchUpNone, slots.CatchUpLatest, slots.CatchUpAll}
)

// policyFlags say what becomes of slots that come at a bad time.
type policyFlags struct {
	spread                    percent
	deadline, catchUpWindow   limit
	freshWithin               limit
	overlap, oncePer, catchUp string
	calendar, calendarUse     string
	catchUpMost               int32
}

func (f *policyFlags) add(c *cobra.Command) {
	flags := c.Flags()
	f.spread = 10
	flags.Var(&f.spread, "spread", "--refresh: how much of the interval earlier it may be due, each connector at a time of its own; 0 = off")
	flags.Var(&f.deadline, "deadline", "a time that nobody has claimed for so long is missed: too late; none = it never is")
	flags.StringVar(&f.overlap, "overlap", slots.OverlapSkip, "times of --cron that come while a sync is under way: skip them, or queue the latest")
	flags.StringVar(&f.oncePer, "once-per", none, "--cron: one completed sync in each day, week or month is enough; none = each time counts")
	flags.StringVar(&f.catchUp, "catch-up", slots.CatchUpLatest, "which times that passed while no scheduler ran are done later: none, the latest or all")
	flags.Int32Var(&f.catchUpMost, "catch-up-most", 10, "how many --catch-up all does at most, 1 to 1000")
	flags.Var(&f.catchUpWindow, "catch-up-window", "times that are older are not caught up; none = however old")
	flags.Var(&f.freshWithin, "fresh-within", "how old what is stored may be, whatever the schedule: older is late, in lists and alerts; none = nobody says")
	flags.StringVar(&f.calendar, "calendar", none, "a calendar of echomind calendars, whose times --calendar-use is about; none = it names none")
	flags.StringVar(&f.calendarUse, "calendar-use", slots.Exclude, "what is done with --calendar: exclude its times, or run on them only")
}

func (f *policyFlags) check(c *cobra.Command) error {
	for _, of := range []struct {
		flag, value string
		known       []string
	}{{"overlap", f.overlap, overlaps}, {"once-per", f.oncePer, periods}, {"catch-up", f.catchUp, catchUps}, {"calendar-use", f.calendarUse, uses}} {
		if !slices.Contains(of.known, of.value) {
			last := len(of.known) - 1
			return usagef("--%s %q: must be %s or %s", of.flag, clip(of.value, 40), strings.Join(of.known[:last], ", "), of.known[last])
		}
	}
	if f.catchUpMost < 1 || f.catchUpMost > 1000 {
		return usagef("--catch-up-most %d: must be 1 to 1000", f.catchUpMost)
	}
	if c.Flags().Changed("spread") && c.Flags().Changed("cron") {
		return usagef("--spread: is about --refresh; --cron spreads with H, such as \"H 3 * * *\"")
	}
	return nil
}

// checkNew refuses what would mean nothing of a connector that is not there yet.
func (f *policyFlags) checkNew(c *cobra.Command) error {
	for _, of := range []string{"overlap", "once-per"} {
		if c.Flags().Changed(of) && !c.Flags().Changed("cron") {
			return usagef("--%s: needs --cron, which it is about", of)
		}
	}
	if c.Flags().Changed("calendar-use") && !c.Flags().Changed("calendar") {
		return usagef("--calendar-use: needs --calendar, which it is about")
	}
	return nil
}

// apply changes what was given in p.
func (f *policyFlags) apply(c *cobra.Command, p *dbgen.AddConnectorParams) {
	given := c.Flags().Changed
	if given("spread") {
		p.SpreadPercent = int32(f.spread)
	}
	if given("deadline") {
		p.DeadlineMinutes = f.deadline.column()
	}
	if given("overlap") {
		p.Overlap = f.overlap
	}
	if given("once-per") {
		p.OncePer = nil
		if f.oncePer != none {
			p.OncePer = &f.oncePer
		}
	}
	if given("catch-up") {
		p.CatchUp = f.catchUp
	}
	if given("catch-up-most") {
		p.CatchUpMost = f.catchUpMost
	}
	if given("catch-up-window") {
		p.CatchUpMinutes = f.catchUpWindow.column()
	}
	if given("fresh-within") {
		p.FreshWithinMinutes = f.freshWithin.column()
	}
	if given("calendar") {
		p.Calendar = nil
		if f.calendar != none {
			p.Calendar = &f.calendar
		}
	}
	if given("calendar-use") {
		p.CalendarUse = f.calendarUse
	}
}

// percent is a value such as 10%.
type percent int32

// Set is part of pflag.Value.
func (v *percent) Set(text string) error {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 32)
	if err != nil || n < 0 || n > 100 {
		return fmt.Errorf("%q: write 0 (off) to 100%%", clip(text, 40))
	}
	*v = percent(n)
	return nil
}

func (v *percent) String() string { return fmt.Sprintf("%d%%", int32(*v)) }

// Type is part of pflag.Value.
func (v *percent) Type() string { return "percent" }

// limit is a time in minutes; 0 = none.
type limit struct{ interval }

const mostPolicyMinutes = 525600

// Set is part of pflag.Value.
func (v *limit) Set(text string) error {
	v.interval = interval{}
	if text == none {
		return nil
	}
	if err := v.interval.Set(text); err != nil || v.manual || v.minutes == 0 || v.minutes > mostPolicyMinutes {
		return fmt.Errorf("%q: write 30m, 2h or 7d, at most 365d, or none", clip(text, 40))
	}
	return nil
}

// Type is part of pflag.Value.
func (v *limit) Type() string { return "30m|2h|7d|none" }

func (v *limit) column() *int32 {
	if v.minutes == 0 {
		return nil
	}
	return &v.minutes
}

// policies names those of a connector that are not the default.
func policies(c connector) string {
	var all []string
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if c.ScheduleCron == nil && c.RefreshFreqMinutes != nil && *c.RefreshFreqMinutes > 0 && c.SpreadPercent != 10 {
		say("spread %d%%", c.SpreadPercent)
	}
	if c.DeadlineMinutes != nil {
		say("deadline %s", every(*c.DeadlineMinutes))
	}
	if c.ScheduleCron != nil && c.OncePer != nil {
		say("once per %s", *c.OncePer)
	}
	if c.ScheduleCron != nil && c.Overlap != slots.OverlapSkip {
		say("in flight: %s", c.Overlap)
	}
	switch {
	case c.CatchUp == slots.CatchUpAll:
		say("catch up: all, at most %d", c.CatchUpMost)
	case c.CatchUp != slots.CatchUpLatest:
		say("catch up: %s", c.CatchUp)
	}
	if c.CatchUpMinutes != nil {
		say("catch up the last %s", every(*c.CatchUpMinutes))
	}
	if c.Calendar != nil {
		say("calendar: %s %s", c.CalendarUse, *c.Calendar)
	}
	if c.Condition != nil {
		say("condition %s", *c.Condition)
	}
	if len(all) == 0 {
		return ""
	}
	return ", " + strings.Join(all, ", ")
}
