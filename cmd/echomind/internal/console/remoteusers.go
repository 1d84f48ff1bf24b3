package console

import (
	"context"
	"fmt"

	"github.com/echomind/sync/sdk/client"
)

func (r *remote) users(ctx context.Context) ([]userView, error) {
	p := client.UsersListParams{PageSize: new(int32(pageSize))}
	found, err := upToMost[userView](ctx, "users", maxUsers, func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.UsersListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the users: %w", err)
	}
	return found, nil
}

// links are whom issuers sign in; of a user, where one is given.
func (r *remote) links(ctx context.Context, user *int32) ([]identityView, error) {
	p := client.UsersLinksListParams{UserID: user, PageSize: new(int32(pageSize))}
	found, err := upToMost[identityView](ctx, "links", maxUsers, func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.UsersLinksListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list whom issuers sign in: %w", err)
	}
	return found, nil
}
