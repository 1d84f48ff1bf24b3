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
	leave, err := a.turnAtChains(ctx, in.Body.Settings)
	if err != nil {
		return nil, err
	}
	defer leave()
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if err := in.Body.takeTurn(ctx, q); err != nil {
			return err
		}
		old, err := locked(ctx, q, in.number())
		if err != nil {
			return err
		}
		if err := in.check(old); err != nil {
			return err
		}
		before := paramsOf(old)
		p := before
		in.Body.Name.set(&p.Name, "")
		in.Body.Type.set(&p.Type, "")
		in.Body.apply(&p, requestOf(ctx).Who)
		if err := in.Body.check(p); err != nil {
			return err
		}
		isSame := same(p, before)
		if isSame { // nobody's work is signed by who changes nothing of it
			isChained, err := in.Body.writeChain(ctx, q, p.ID)
			if err == nil && !isChained {
				out, err = seen(ctx, q, p.ID)
			}
			if err != nil || !isChained {
				return err
			}
		}
		if err := a.update(ctx, q, p, old); err != nil {
			return err
		}
		if !isSame {
			if _, err := in.Body.writeChain(ctx, q, p.ID); err != nil {
				return err
			}
		}
		out, err = seen(ctx, q, p.ID)
		return err
	})
	return out, err
}

// paramsOf is a connector as it is stored.
func paramsOf(of dbgen.ApiChangeable) dbgen.AddConnectorParams {
	return dbgen.AddConnectorParams{
		ID: of.ID, Name: of.Name, Type: of.Type, UserID: of.UserID, Scope: of.Scope, ScopeID: of.ScopeID, Config: of.Config,
		RefreshFreqMinutes: of.RefreshFreqMinutes, ScheduleCron: of.ScheduleCron, RunAtOnce: of.RunAtOnce, TimeZone: of.TimeZone, DstGap: of.DstGap, DstOverlap: of.DstOverlap,
		SpreadPercent: of.SpreadPercent, DeadlineMinutes: of.DeadlineMinutes, Overlap: of.Overlap, OncePer: of.OncePer, CatchUp: of.CatchUp,
		CatchUpMost: of.CatchUpMost, CatchUpMinutes: of.CatchUpMinutes, FreshWithinMinutes: of.FreshWithinMinutes, Calendar: of.Calendar, CalendarUse: of.CalendarUse,
		Condition: of.Condition, ConcurrencyKeys: of.ConcurrencyKeys, MaxRetries: of.MaxRetries, DeletionGuard: of.DeletionGuard,
	}
}

// isGiven says whether a change is of whose it is, for whom, or of what type.
func isGiven(p dbgen.AddConnectorParams, old dbgen.ApiChangeable) bool {
	return p.Type != old.Type || !isOf(p.UserID, old.UserID) || p.Scope != old.Scope || (p.ScopeID == nil) != (old.ScopeID == nil) || text(p.ScopeID) != text(old.ScopeID)
}

// update writes a connector that is locked, and gives it where that is asked for.
func (a *API) update(ctx context.Context, q *dbgen.Queries, p dbgen.AddConnectorParams, old dbgen.ApiChangeable) error {
	isGiven, who := isGiven(p, old), requestOf(ctx)
	if isGiven {
		if !isOf(old.UserID, &who.UserID) && !who.Role.AtLeast(identity.Superadmin) {
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
	by := fmt.Sprintf("user %d", who.UserID)
	var err error
	if isGiven {
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
	return unknownName(err, p)
}
