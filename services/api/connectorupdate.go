package api

import (
	"context"
	"fmt"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// UpdateConnector is what to change.
type UpdateConnector struct {
	Versioned
	Body ConnectorPatch
}

func (a *API) updateConnector(ctx context.Context, in *UpdateConnector) (out *OneConnector, err error) {
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		old, err := locked(ctx, q, in.number())
		if err != nil {
			return err
		}
		if err := in.check(old); err != nil {
			return err
		}
		p := dbgen.AddConnectorParams{
			ID: old.ID, Name: old.Name, Type: old.Type, UserID: old.UserID, Scope: old.Scope, ScopeID: old.ScopeID, Config: old.Config,
			RefreshFreqMinutes: old.RefreshFreqMinutes, ScheduleCron: old.ScheduleCron, RunAtOnce: old.RunAtOnce, TimeZone: old.TimeZone, DstGap: old.DstGap, DstOverlap: old.DstOverlap,
			SpreadPercent: old.SpreadPercent, DeadlineMinutes: old.DeadlineMinutes, Overlap: old.Overlap, OncePer: old.OncePer, CatchUp: old.CatchUp,
			CatchUpMost: old.CatchUpMost, CatchUpMinutes: old.CatchUpMinutes, FreshWithinMinutes: old.FreshWithinMinutes, Calendar: old.Calendar, CalendarUse: old.CalendarUse,
			Condition: old.Condition, ConcurrencyKeys: old.ConcurrencyKeys, MaxRetries: old.MaxRetries, DeletionGuard: old.DeletionGuard,
		}
		before := p
		in.Body.Name.set(&p.Name, "")
		in.Body.Type.set(&p.Type, "")
		in.Body.apply(&p, requestOf(ctx).Who)
		if err := in.Body.check(p); err != nil {
			return err
		}
		if same(p, before) { // nobody's work is signed by who changes nothing of it
			out, err = seen(ctx, q, in.number())
			return err
		}
		given := p.Type != old.Type || !isOf(p.UserID, old.UserID) || p.Scope != old.Scope || (p.ScopeID == nil) != (old.ScopeID == nil) || p.ScopeID != nil && *p.ScopeID != *old.ScopeID
		if given {
			if who := requestOf(ctx); !isOf(old.UserID, &who.UserID) && !who.Role.AtLeast(identity.Superadmin) {
				return problem.Forbidden(fmt.Sprintf("Connector %d is user %d's: its owner, scope and type are for them and for superadmins to change.", old.ID, ownerOf(old.UserID)),
					"Leave type, user_id, scope and scope_id away, or ask its owner.")
			}
			if err := mayCreate(ctx, q, p); err != nil {
				return err
			}
		}
		if err := a.seal(&p); err != nil {
			return err
		}
		by := fmt.Sprintf("user %d", requestOf(ctx).UserID)
		if given {
			_, err = q.GiveConnector(ctx, dbgen.GiveConnectorParams{
				ID: p.ID, Name: p.Name, Type: p.Type, UserID: p.UserID, Scope: p.Scope, ScopeID: p.ScopeID, Config: p.Config, RefreshFreqMinutes: p.RefreshFreqMinutes,
				ScheduleCron: p.ScheduleCron, RunAtOnce: p.RunAtOnce, TimeZone: p.TimeZone, DstGap: p.DstGap, DstOverlap: p.DstOverlap, SpreadPercent: p.SpreadPercent,
				DeadlineMinutes: p.DeadlineMinutes, Overlap: p.Overlap, OncePer: p.OncePer, CatchUp: p.CatchUp, CatchUpMost: p.CatchUpMost,
				CatchUpMinutes: p.CatchUpMinutes, FreshWithinMinutes: p.FreshWithinMinutes, Calendar: p.Calendar, CalendarUse: p.CalendarUse, Condition: p.Condition,
				ConcurrencyKeys: p.ConcurrencyKeys, MaxRetries: p.MaxRetries, DeletionGuard: p.DeletionGuard, By: &by,
			})
		} else {
			_, err = q.UpdateConnector(ctx, dbgen.UpdateConnectorParams{
				ID: p.ID, Name: p.Name, Config: p.Config, RefreshFreqMinutes: p.RefreshFreqMinutes,
				ScheduleCron: p.ScheduleCron, RunAtOnce: p.RunAtOnce, TimeZone: p.TimeZone, DstGap: p.DstGap, DstOverlap: p.DstOverlap, SpreadPercent: p.SpreadPercent,
				DeadlineMinutes: p.DeadlineMinutes, Overlap: p.Overlap, OncePer: p.OncePer, CatchUp: p.CatchUp, CatchUpMost: p.CatchUpMost,
				CatchUpMinutes: p.CatchUpMinutes, FreshWithinMinutes: p.FreshWithinMinutes, Calendar: p.Calendar, CalendarUse: p.CalendarUse, Condition: p.Condition,
				ConcurrencyKeys: p.ConcurrencyKeys, MaxRetries: p.MaxRetries, DeletionGuard: p.DeletionGuard, By: &by,
			})
		}
		if err != nil {
			return err
		}
		out, err = seen(ctx, q, in.number())
		return err
	})
	return out, err
}
