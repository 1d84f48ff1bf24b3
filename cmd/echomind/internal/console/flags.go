package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/cron"
	"github.com/echomind/sync/internal/masks"
	"github.com/echomind/sync/internal/timezone"
	"github.com/echomind/sync/services/chunker"
	sources "github.com/echomind/sync/services/connector"
)

// connectorFlags are what a user says of a connector; those that are not given leave it as it is.
type connectorFlags struct {
	name, connectorType, scope, scopeID, config, cron, timeZone, deletionGuard string
	dstGap, dstOverlap                                                         string
	user, maxRetries                                                           int32
	refresh                                                                    interval
	condition                                                                  string
	keys                                                                       []string
	unchecked, now                                                             bool
	policies                                                                   policyFlags
	chain                                                                      chainFlags
}

func addConnectorFlags(c *cobra.Command) *connectorFlags {
	f := &connectorFlags{chain: chainFlags{runAfter: none, accept: "completed"}}
	flags := c.Flags()
	flags.StringVar(&f.name, "name", "", "what people call it")
	flags.StringVar(&f.connectorType, "type", "", "web, file, or another `type` that echomind types list shows")
	flags.Int32Var(&f.user, "user", 0, "number of the user whose source it is")
	flags.StringVar(&f.config, "config", "{}", "what the type needs to know, as a JSON `object`; @FILE reads it from a file, @- from standard input, where no list of processes shows it")
	flags.StringVar(&f.scope, "scope", "user", "who may find its documents: user, group or org; system is for jobs of the system, which have no user and which administrators add")
	flags.StringVar(&f.scopeID, "scope-id", "", "the group, for --scope group")
	flags.Var(&f.refresh, "refresh", "sync again so long after each sync; 0 = once, manual = only when triggered; without it and --cron as the type has it")
	flags.StringVar(&f.cron, "cron", "", "sync at these times instead: five fields as in crontab, such as \"0 3 * * *\", with H, L, W and #, or @daily")
	flags.BoolVar(&f.now, "now", false, "--cron: the first sync is at once, and not at the first of these times; with --refresh it always is")
	flags.StringVar(&f.timeZone, "time-zone", "UTC", "the zone that --cron is meant in, such as Europe/Berlin")
	flags.StringVar(&f.dstGap, "dst-gap", dstDefault, "what becomes of times of --cron that the clocks leave out when they are put forward: after the gap, skip, before it, or default (after for fixed times, skip for what runs every so many minutes)")
	flags.StringVar(&f.dstOverlap, "dst-overlap", dstDefault, "which of two equal times of --cron counts when the clocks are put back: first, second, both, or default (first for fixed times, both for what runs every so many minutes)")
	f.policies.add(c)
	keysFlag(flags, &f.keys)
	flags.StringVar(&f.condition, "condition", none, "of a job: what echomind conditions list shows, asked at each time; where it is not met the time is skipped; none = nothing is asked")
	flags.Int32Var(&f.maxRetries, "max-retries", 5, "disable it after so many failures in a row")
	flags.StringVar(&f.deletionGuard, "deletion-guard", guardOn, "whether a sync that would delete many documents at once asks first, by failing until triggered with --allow-deletions: on or off")
	flags.BoolVar(&f.unchecked, "no-config-check", false, "take a --config that the type's service of this version would refuse")
	c.MarkFlagsMutuallyExclusive("refresh", "cron")
	return f
}

const guardOn, guardOff = "on", "off"

// dstDefault leaves a policy to the schedule.
const dstDefault = "default"

var (
	dstGaps     = []string{string(cron.GapAfter), string(cron.GapSkip), string(cron.GapBefore), dstDefault}
	dstOverlaps = []string{string(cron.OverlapFirst), string(cron.OverlapSecond), string(cron.OverlapBoth), dstDefault}
)

// check refuses values that can never be right.
func (f *connectorFlags) check(c *cobra.Command) error {
	given := c.Flags().Changed
	if err := checkKeys(f.keys); err != nil {
		return err
	}
	for flag, value := range map[string]string{"name": f.name, "type": f.connectorType, "cron": f.cron} {
		if given(flag) && !utf8.ValidString(value) {
			return usagef("--%s: must be UTF-8 text", flag)
		}
	}
	if given("scope") && !slices.Contains([]string{"user", "group", "org", "system"}, f.scope) {
		return usagef("--scope %q: must be user, group, org or system", f.scope)
	}
	if given("user") && f.scope == "system" {
		return usagef("--user %d: goes with every scope but system, which has no user", f.user)
	}
	if !slices.Contains([]string{guardOn, guardOff}, f.deletionGuard) {
		return usagef("--deletion-guard %q: must be on or off", f.deletionGuard)
	}
	if !slices.Contains(dstGaps, f.dstGap) {
		return usagef("--dst-gap %q: must be after, skip, before or default", clip(f.dstGap, 40))
	}
	if !slices.Contains(dstOverlaps, f.dstOverlap) {
		return usagef("--dst-overlap %q: must be first, second, both or default", clip(f.dstOverlap, 40))
	}
	if err := errors.Join(f.policies.check(c), f.chain.check()); err != nil {
		return err
	}
	if given("config") {
		if err := readObject("--config", &f.config, c.InOrStdin()); err != nil {
			return err
		}
		if err := checkObject("--config", f.config); err != nil {
			return err
		}
	}
	if _, err := timezone.Load(f.timeZone); given("time-zone") && err != nil {
		return usagef("--time-zone %q: must be an IANA name such as Europe/Berlin", f.timeZone)
	}
	return nil
}

// maxConfigFile is more than a configuration may have, so that one that is too long is refused with its size.
const maxConfigFile = 1 << 20

// readObject reads an object that is given to a flag as @FILE.
func readObject(flag string, object *string, stdin io.Reader) error {
	name, isFile := strings.CutPrefix(*object, "@")
	if !isFile {
		return nil
	}
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return usagef("%s @%s: %v", flag, name, err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxConfigFile))
	if err != nil {
		return usagef("%s @%s: %v", flag, name, err)
	}
	*object = string(text)
	return nil
}

func checkObject(flag, text string) error {
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || object == nil {
		problem := "it is another JSON value"
		if !json.Valid([]byte(text)) {
			problem = fmt.Sprintf("it is not JSON: %v", err)
		}
		return usagef("%s %q: must be a JSON object such as {\"url\":\"…\"}: %s", flag, clip(text, 40), problem)
	}
	if !utf8.ValidString(text) || strings.Contains(text, `\u0000`) {
		return usagef("%s: must be UTF-8 text without NUL characters, which PostgreSQL cannot store", flag)
	}
	if path := masks.Masked(object, "config"); path != "" {
		return usagef("%s: %s has %s, which stands for a secret in our output; write the secret itself", flag, path, masks.Mask)
	}
	return nil
}

// checkSource says at once what the type's service would say at the first sync, of a type that is known here.
func (f *connectorFlags) checkSource(p dbgen.AddConnectorParams) error {
	if f.unchecked {
		return nil
	}
	if err := errors.Join(chunker.CheckConfig(p.Type, p.Config), sources.CheckConfig(p.Type, p.Config)); err != nil {
		return usagef("--config, for type %s: %s (--no-config-check takes it all the same)", p.Type,
			strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// checkSchedule says at once of a --cron what the scheduler would write down later. Before it is added a connector has no id, and
// what H stands for is not known.
func (f *connectorFlags) checkSchedule(c *cobra.Command, id int32) error {
	if !c.Flags().Changed("cron") {
		return nil
	}
	schedule, err := cron.Parse(cron.Spec{Expression: f.cron, Zone: "UTC", ID: id})
	if err != nil {
		return usagef("--cron %q: must be five fields as in crontab, such as \"0 3 * * *\" (an interval goes into --refresh, "+
			"a zone into --time-zone): %v", clip(f.cron, 40), err)
	}
	if schedule.Next(time.Now()).IsZero() && (id != 0 || !strings.ContainsAny(f.cron, "hH")) {
		return usagef("--cron %q: never comes due; name a day that exists", clip(f.cron, 40))
	}
	return nil
}

// apply changes what was given in p.
func (f *connectorFlags) apply(c *cobra.Command, p *dbgen.AddConnectorParams) {
	given := c.Flags().Changed
	if given("name") {
		p.Name = f.name
	}
	if given("type") {
		p.Type = f.connectorType
	}
	if given("user") {
		p.UserID = &f.user
	}
	if given("config") {
		p.Config = []byte(f.config)
	}
	if given("scope") {
		p.Scope = f.scope
	}
	if given("scope-id") {
		p.ScopeID = nil
		if f.scopeID != "" {
			p.ScopeID = &f.scopeID
		}
	}
	if given("time-zone") {
		p.TimeZone = f.timeZone
	}
	if given("dst-gap") {
		p.DstGap = chosen(f.dstGap)
	}
	if given("dst-overlap") {
		p.DstOverlap = chosen(f.dstOverlap)
	}
	f.policies.apply(c, p)
	if given("condition") {
		p.Condition = nil
		if f.condition != none {
			p.Condition = &f.condition
		}
	}
	if given(keysFlagName) {
		p.ConcurrencyKeys = keysGiven(f.keys)
	}
	if given("refresh") {
		p.RefreshFreqMinutes, p.ScheduleCron = f.refresh.column(), nil
	}
	if given("cron") {
		p.RefreshFreqMinutes, p.ScheduleCron = nil, &f.cron
	}
	if given("now") {
		p.RunAtOnce = f.now
	}
	if given("max-retries") {
		p.MaxRetries = f.maxRetries
	}
	if given("deletion-guard") {
		p.DeletionGuard = new(f.deletionGuard == guardOn)
	}
	p.By = person()
}

// chosen is a policy as its column holds it.
func chosen(policy string) *string {
	if policy == dstDefault {
		return nil
	}
	return &policy
}

// person is who is written down as having made a change.
func person() *string {
	by := "echomind"
	if who, err := user.Current(); err == nil && who.Username != "" {
		by = who.Username
	}
	return &by
}
