package console

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/postgres"
)

const (
	insufficientPrivilege = "42501"
	consoleRole           = "echomind_console"
)

// refusals say for each constraint which flag it is about and how to correct it.
var refusals = map[string]func(dbgen.AddConnectorParams) string{
	"connectors_name_form": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--name %q: must have 1 to 200 characters, and has %d", clip(p.Name, 40), len([]rune(p.Name)))
	},
	"connectors_user_id_positive": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--user %d: must be a user's number, 1 or more", *p.UserID)
	},
	"connectors_scope_known": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--scope %q: must be user, group, org or system", p.Scope)
	},
	"connectors_owner": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--scope %s: goes %s", p.Scope, map[bool]string{true: "without --user", false: "with --user"}[p.Scope == "system"])
	},
	"connectors_system_has_no_scope_id": func(dbgen.AddConnectorParams) string {
		return "--scope system: goes without --scope-id"
	},
	"connectors_system_type": func(p dbgen.AddConnectorParams) string {
		if p.Scope == "system" {
			return fmt.Sprintf("--type %q: is no type of the system, and --scope system is for these alone; `echomind types add NAME --system` adds one", p.Type)
		}
		return fmt.Sprintf("--type %q: is a type of the system: its one job has --scope system", p.Type)
	},
	"connectors_scope_id_form": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--scope-id %q: must have 1 to 128 letters, digits, _ or -", clip(orDash(p.ScopeID), 40))
	},
	"connectors_group_has_scope_id": func(dbgen.AddConnectorParams) string {
		return "--scope group: needs --scope-id, the group's name"
	},
	"connectors_config_object": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--config: must be a JSON object such as {\"url\":\"…\"}, and is %s", clip(string(p.Config), 40))
	},
	"connectors_config_size": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--config: must have at most 64 KiB, and has %d bytes; keep lists in a file of the source",
			len(p.Config))
	},
	"connectors_config_depth": func(dbgen.AddConnectorParams) string {
		return "--config: must be nested at most 30 levels deep"
	},
	"connectors_refresh_range": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--refresh: must be 0 to %dd, in minutes %d", maxMinutes/unitMinutes["d"], *p.RefreshFreqMinutes)
	},
	"connectors_refresh_chosen": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("type %q has no default interval: give --refresh or --cron, or set one with `echomind types add %s --default-refresh 24h`", p.Type, p.Type)
	},
	"connectors_one_schedule": func(dbgen.AddConnectorParams) string {
		return "--refresh and --cron: give one of them"
	},
	"connectors_cron_length": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--cron %q: must have 1 to 200 characters", clip(orDash(p.ScheduleCron), 40))
	},
	"connectors_time_zone_length": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--time-zone %q: must be an IANA name such as Europe/Berlin", clip(p.TimeZone, 40))
	},
	"connectors_dst_gap_known": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--dst-gap %q: must be after, skip, before or default", clip(orDash(p.DstGap), 40))
	},
	"connectors_dst_overlap_known": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--dst-overlap %q: must be first, second, both or default", clip(orDash(p.DstOverlap), 40))
	},
	"connectors_calendar_known": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--calendar %q: there is none of this name; echomind calendars list shows those there are", clip(orDash(p.Calendar), 63))
	},
	"connectors_condition_known": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--condition %q: there is none of this name; echomind conditions list shows those there are", clip(orDash(p.Condition), 63))
	},
	"connectors_max_retries_range": func(p dbgen.AddConnectorParams) string {
		return fmt.Sprintf("--max-retries %d: must be 1 to 1000", p.MaxRetries)
	},
}

// refused turns the constraint that refused a connector into what to correct.
func refused(ctx context.Context, pool *pgxpool.Pool, what string, p dbgen.AddConnectorParams, err error) error {
	var usage usageError
	if err == nil || errors.As(err, &usage) {
		return err
	}
	constraint := postgres.Constraint(err)
	if constraint == "connectors_type_known" {
		return unknownType(ctx, pool, p.Type)
	}
	if say, known := refusals[constraint]; known {
		return usageError{errors.New(say(p))}
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && strings.HasPrefix(pg.Code, "22") {
		return usagef("--name, --config: PostgreSQL cannot store a value: %s", pg.Message)
	}
	return told(what, err)
}

// told says what an error of the database means to the user of the command.
func told(what string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case postgres.Locked(err):
		return fmt.Errorf("%s: somebody else holds the row, and nothing was changed; try again: %w", what, err)
	case pg.ConstraintName != "" && pg.Hint != "": // a trigger's refusal, in words for people
		return fmt.Errorf("%s: %s. %s", what, pg.Message, pg.Hint)
	case pg.ConstraintName != "" && pg.Detail == "":
		return fmt.Errorf("%s: %s", what, pg.Message)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// barred adds to an error what helps a login that may not do what was asked for.
func barred(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == insufficientPrivilege {
		return fmt.Errorf("%w; DATABASE_URL's login must be a member of role %s", err, consoleRole)
	}
	return err
}

func unknownType(ctx context.Context, pool *pgxpool.Pool, name string) error {
	known, err := ask(ctx, pool, "types", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ConnectorType, error) {
		return q.ListConnectorTypes(ctx)
	})
	if err != nil {
		return fmt.Errorf("list the connector types: %w", err)
	}
	return notKnown(name, typeNames(known))
}

func typeNames(types []dbgen.ConnectorType) []string {
	all := make([]string, len(types))
	for i, t := range types {
		all[i] = t.Name
	}
	return all
}

func notKnown(name string, known []string) error {
	return fmt.Errorf("--type %q is not known: there are %s; a type of your own is added with `echomind types add NAME`",
		clip(name, 63), strings.Join(known, ", "))
}

// noConnector is the error for an id that nothing goes by.
func noConnector(id int32) error { return noConnectorError(id) }

type noConnectorError int32

func (e noConnectorError) Error() string {
	return fmt.Sprintf("there is no connector %d; `echomind connectors list` shows those there are", int32(e))
}
