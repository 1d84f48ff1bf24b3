package console

import (
	"context"
	"fmt"
	"net/http"

	"github.com/echomind/sync/sdk/client"
)

func (r *remote) limits(ctx context.Context) ([]limitView, error) {
	p := client.LimitsKeysListParams{PageSize: new(int32(shortPage))}
	found, err := upToMost[limitView](ctx, "limits", maxListedLimits, func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.LimitsKeysListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the limits: %w", err)
	}
	return found, nil
}

// setLimit adds the limit of a key, or changes it.
func (r *remote) setLimit(ctx context.Context, key string, most int32) (set limitView, _ error) {
	answer, err := put(func(match *string) (*client.LimitsKeysPutResponse, error) {
		return r.api.LimitsKeysPutWithResponse(ctx, key, &client.LimitsKeysPutParams{IfMatch: match}, client.PutKeyLimitBody{Most: most})
	})
	if err != nil {
		return set, fmt.Errorf("set the limit: %w", err)
	}
	if set, err = readAs[limitView](answer.Body); err == nil {
		err = r.is(set.Key == key)
	}
	set.Held, set.Waiting = nil, nil // as on the database, which counts neither then
	return set, err
}

func (r *remote) removeLimit(ctx context.Context, key string) error {
	answer, err := r.api.LimitsKeysDeleteWithResponse(ctx, key, &client.LimitsKeysDeleteParams{IfMatch: new("*")})
	switch {
	case notFound(err):
		return noLimit(key)
	case err != nil:
		return fmt.Errorf("remove the limit: %w", err)
	}
	return r.is(answer.StatusCode() == http.StatusNoContent)
}
