package connect

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"github.com/echomind/sync/sdk/topology"
)

// refusals tell those who ask JetStream that they may not. The server drops a request that its user may not make and
// says so on the connection, not to the request, which would wait for its whole deadline.
type refusals struct {
	mu     sync.Mutex
	asking map[string]map[*context.CancelCauseFunc]struct{} // by subject
}

// quoted finds the subject in the server's words: nothing else carries it.
var quoted = regexp.MustCompile(`"([^"]+)"`)

// tell ends the requests that a permission error is about, and says whether there are any.
func (r *refusals) tell(violation error) bool {
	found := quoted.FindStringSubmatch(violation.Error())
	if found == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for cancel := range r.asking[found[1]] {
		(*cancel)(fmt.Errorf("%w publish to %s", topology.ErrNotAllowed, found[1]))
	}
	return len(r.asking[found[1]]) > 0
}

func (r *refusals) await(subject string, cancel context.CancelCauseFunc) (forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asking[subject] == nil {
		if r.asking == nil {
			r.asking = map[string]map[*context.CancelCauseFunc]struct{}{}
		}
		r.asking[subject] = map[*context.CancelCauseFunc]struct{}{}
	}
	r.asking[subject][&cancel] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.asking[subject], &cancel); len(r.asking[subject]) == 0 {
			delete(r.asking, subject)
		}
	}
}

// asked makes a request of JetStream's API, and returns topology.ErrNotAllowed where the server refuses it.
func asked[T any](ctx context.Context, r *refusals, api string, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer r.await("$JS.API."+api, cancel)()
	out, err := call(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out, away(err)
}
