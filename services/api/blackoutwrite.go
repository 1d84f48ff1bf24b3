package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// PutBlackout is what a blackout window is to say.
type PutBlackout struct {
	PutNamed
	Body NewBlackout
}

// NewBlackout is all that a window says.
type NewBlackout struct {
	Calendar         string  `json:"calendar" minLength:"1" maxLength:"63" doc:"The calendar that has its times: one of /api/v1/calendars."`
	UserID           *int64  `json:"user_id,omitempty" nullable:"true" minimum:"1" maximum:"2147483647" format:"int32" doc:"Whose connectors it holds; null = anybody's."`
	Type             *string `json:"type,omitempty" nullable:"true" minLength:"1" maxLength:"63" doc:"Of which type: one of /api/v1/types; null = any, but those of the system."`
	Provider         *string `json:"provider,omitempty" nullable:"true" minLength:"1" maxLength:"63" doc:"Of the types that name this provider; null = any."`
	ExceptConnectors []int64 `json:"except_connectors,omitempty" maxItems:"100" doc:"Connectors that it does not hold."`
	Mode             string  `json:"mode" enum:"skip,defer" doc:"What becomes of slots within it: they are skipped, or wait for its end."`
	SpreadMinutes    *int32  `json:"spread_minutes,omitempty" nullable:"true" minimum:"0" maximum:"1440" doc:"In how much time behind its end those that have waited begin; 0 = at once, 10 where you do not say."`
}

// read is what is given, as the table has it.
func (b NewBlackout) read(name string) (p dbgen.AddBlackoutParams, err error) {
	p = dbgen.AddBlackoutParams{Name: name, Calendar: b.Calendar, Type: b.Type, Provider: b.Provider, Mode: b.Mode, SpreadMinutes: 10}
	for field, given := range map[string]string{"calendar": b.Calendar, "type": text(b.Type), "provider": text(b.Provider)} {
		if strings.ContainsRune(given, 0) {
			return p, problem.Invalid("body."+field, "must be a name")
		}
	}
	if b.UserID != nil {
		p.UserID = new(int32(*b.UserID))
	}
	if b.SpreadMinutes != nil {
		p.SpreadMinutes = *b.SpreadMinutes
	}
	for i, id := range b.ExceptConnectors {
		if id < 1 || id > math.MaxInt32 {
			return p, problem.Invalid(fmt.Sprintf("body.except_connectors[%d]", i), fmt.Sprintf("%d is no number of a connector; write 1 to 2147483647", id))
		}
		p.ExceptConnectors = append(p.ExceptConnectors, int32(id))
	}
	return p, nil
}

func (a *API) putBlackout(ctx context.Context, in *PutBlackout) (*OneBlackout, error) {
	p, err := in.Body.read(in.Name)
	if err != nil {
		return nil, err
	}
	var isNew bool
	var written blackoutRow
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := optional(q.LockBlackout(ctx, in.Name))
		if err != nil {
			return err
		}
		if err := in.check(stands); err != nil {
			return err
		}
		if i, wrong, err := unseen(ctx, q, p.ExceptConnectors); err != nil {
			return err
		} else if wrong != "" {
			return problem.Invalid(fmt.Sprintf("body.except_connectors[%d]", i), wrong)
		}
		if isNew = stands == nil; isNew {
			n, err := q.AddBlackout(ctx, p)
			if err == nil && n == 0 {
				err = in.meanwhile()
			}
			if err != nil {
				return refusedBlackout(err, p)
			}
		} else if _, err := q.ChangeBlackout(ctx, dbgen.ChangeBlackoutParams{
			Name: p.Name, Calendar: p.Calendar, UserID: p.UserID, Type: p.Type, Provider: p.Provider, ExceptConnectors: p.ExceptConnectors, Mode: p.Mode, SpreadMinutes: p.SpreadMinutes,
		}); err != nil {
			return refusedBlackout(err, p)
		}
		written, err = blackoutOf(ctx, q, in.Name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &OneBlackout{Status: putStatus(isNew), ETag: version(written.Version), Body: viewBlackout(written)}, nil
}

// refusedBlackout says which value the database does not take; other errors stay.
func refusedBlackout(err error, p dbgen.AddBlackoutParams) error {
	switch postgres.Constraint(err) {
	case "blackouts_calendar_known":
		return problem.Invalid("body.calendar", fmt.Sprintf("%q is no calendar; name one that /api/v1/calendars lists", p.Calendar))
	case "blackouts_type_known":
		return problem.Invalid("body.type", fmt.Sprintf("%q is no type; name one that /api/v1/types lists, or null", text(p.Type)))
	case "blackouts_provider_known":
		return problem.Invalid("body.provider", fmt.Sprintf("no type names the provider %q; name one of a type, or null", text(p.Provider)))
	case "blackouts_count":
		return problem.Conflict("There are 100 blackout windows already.", "Delete one, or give the calendar of one more times.")
	}
	return err
}

func (a *API) deleteBlackout(ctx context.Context, in *NamedVersion) (*Nothing, error) {
	err := a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		stands, err := q.LockBlackout(ctx, in.Name)
		if errors.Is(err, pgx.ErrNoRows) {
			return noBlackout(in.Name)
		}
		if err != nil {
			return err
		}
		if err := in.check(stands); err != nil {
			return err
		}
		_, err = q.DeleteBlackout(ctx, in.Name)
		return err
	})
	return &Nothing{}, err
}

func noBlackout(name string) error { return problem.NotFound(fmt.Sprintf("blackout window %q", name)) }
