package console

import (
	"context"
	"fmt"
	"time"
)

// standing is where the system stands, as the server that is asked sees it. Of URLs there is its own.
func (r *remote) standing(ctx context.Context) (standing, error) {
	answer, err := r.api.StatusWithResponse(ctx)
	if err != nil {
		return standing{}, fmt.Errorf("ask where the system stands: %w", err)
	}
	found, err := readAs[struct {
		standing
		SeenAt time.Time `json:"seen_at"`
	}](answer.Body)
	if err == nil {
		err = r.is(!found.SeenAt.IsZero())
	}
	s := found.standing
	s.URLs, s.now, s.through = urls{HTTP: r.server.URL}, found.SeenAt, true
	return s, err
}
