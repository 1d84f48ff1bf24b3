package console

import (
	"context"
	"fmt"

	"github.com/echomind/sync/sdk/client"
)

// remoteCondition is a condition as a server shows it.
type remoteCondition struct {
	conditionView
	UserIDs []int32 `json:"user_ids"`
}

func (c remoteCondition) view() conditionView {
	c.Users = c.UserIDs
	return c.conditionView
}

func (r *remote) conditions(ctx context.Context) ([]conditionView, error) {
	p := client.ConditionsListParams{PageSize: new(int32(shortPage))}
	found, err := upToMost[remoteCondition](ctx, "conditions", maxListedConditions, func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.ConditionsListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the conditions: %w", err)
	}
	views := make([]conditionView, len(found))
	for i, c := range found {
		views[i] = c.view()
	}
	return views, nil
}

func (r *remote) condition(ctx context.Context, name string) (none conditionView, _ error) {
	if !nameForm.MatchString(name) {
		return none, noCondition(name)
	}
	answer, err := r.api.ConditionsGetWithResponse(ctx, name)
	switch {
	case notFound(err):
		return none, noCondition(name)
	case err != nil:
		return none, fmt.Errorf("read the condition: %w", err)
	}
	found, err := readAs[remoteCondition](answer.Body)
	if err == nil {
		err = r.is(found.Name == name)
	}
	found.Connectors = nil // as on the database, which does not count them then
	return found.view(), err
}
