package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/echomind/sync/internal/streams"
)

// api begins the subjects of JetStream's requests.
const api = "$JS.API."

// refusals end requests and publishes that NATS does not permit. The server drops a forbidden message and reports it on the
// connection, not to the request, which would wait for its whole deadline.
type refusals struct {
	// inbox is the prefix of the subjects on which replies arrive.
	inbox string

	mu           sync.Mutex
	asking       map[string]map[*context.CancelCauseFunc]struct{} // by subject
	inboxError   error                                            // why no reply can arrive on this connection; nil = replies arrive
	connectError error                                            // why the last attempt to connect failed; nil = it succeeded
}

// quoted finds the subject in the text of the server's error: no field holds it.
var quoted = regexp.MustCompile(`"([^"]+)"`)

// permissionRefused ends the requests that a permission error is about, and says whether there are any.
func (r *refusals) permissionRefused(violation error) bool {
	found := quoted.FindStringSubmatch(violation.Error())
	if found == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.HasPrefix(found[1], r.inbox+".") {
		r.inboxError = fmt.Errorf("%w subscribe to %s, where the answers to its requests arrive: set NATS_INBOX_PREFIX to what it may",
			streams.ErrNotAllowed, found[1])
		for _, all := range r.asking {
			for cancel := range all {
				(*cancel)(r.inboxError)
			}
		}
		return true
	}
	for cancel := range r.asking[found[1]] {
		(*cancel)(fmt.Errorf("%w publish to %s", streams.ErrNotAllowed, found[1]))
	}
	return len(r.asking[found[1]]) > 0
}

// connected is called for each new connection: its user may have other rights than before.
func (r *refusals) connected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inboxError, r.connectError = nil, nil
}

// connectFailed keeps why an attempt to connect failed, and says whether a person should be told: an absent server was reported
// before.
func (r *refusals) connectFailed(err error) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var dial *net.OpError
	news = (r.connectError == nil || r.connectError.Error() != err.Error()) && (!errors.As(err, &dial) || dial.Op != "dial")
	r.connectError = err
	return news
}

// hint is why the last attempt to connect failed, in words that name the settings; "" = unknown.
func (r *refusals) hint() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.connectError == nil:
		return ""
	case errors.Is(r.connectError, nats.ErrAuthorization), errors.Is(r.connectError, nats.ErrAuthExpired), errors.Is(r.connectError, nats.ErrAuthRevoked):
		return fmt.Sprintf(": %v; check NATS_USER and NATS_PASSWORD, or NATS_CREDS_FILE or NATS_NKEY_FILE", r.connectError)
	}
	return ": " + r.connectError.Error()
}

func (r *refusals) register(subject string, cancel context.CancelCauseFunc) (forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inboxError != nil {
		cancel(r.inboxError) // the server reports it once, and not again
	}
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

// request sends a request to a subject and waits for the reply. It returns streams.ErrNotAllowed where the server refuses it.
func request[T any](ctx context.Context, r *refusals, subject string, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer r.register(subject, cancel)()
	out, err := call(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out, away(err)
}
