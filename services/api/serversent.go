package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

const (
	// watchFor is for how long a stream of events goes on: who goes on behind it is signed in anew.
	watchFor = 2 * time.Minute
	// beatEvery is after how long without an event something is sent, with the place.
	beatEvery = 15 * time.Second
	// sendTimeout bounds each write: who does not read is not waited for.
	sendTimeout = 3 * time.Second // less than a stop waits
	// retryAfter is in how many milliseconds a browser comes back, as an event stream says it.
	retryAfter = 1000

	eventStream = "text/event-stream"
)

// serverSent is an answer of server-sent events, as https://html.spec.whatwg.org/multipage/server-sent-events.html says.
type serverSent struct {
	out  http.ResponseWriter
	beat time.Time // when something was sent last
}

// serveEvents answers with what tell sends, for as long as the watcher stays, but not for longer than watchFor. lasting ends with the connection.
func serveEvents(lasting context.Context, tell func(context.Context, *serverSent)) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(to huma.Context) {
		to.SetHeader("Content-Type", eventStream)
		to.SetHeader("X-Accel-Buffering", "no") // nginx would keep it back
		if to.Method() == http.MethodHead {     // who asks so reads nothing, and may have the connection taken for free
			return
		}
		ctx, cancel := context.WithTimeout(lasting, watchFor)
		defer cancel()
		s := &serverSent{beat: time.Now()}
		_, s.out = humago.Unwrap(to)
		if answer, is := s.out.(*answer); is {
			answer.isStream = true
		}
		_ = http.NewResponseController(s.out).SetReadDeadline(time.Time{}) // that of the request's body would end it
		tell(ctx, s)
	}}
}

// begin tells where a stream begins.
func (s *serverSent) begin(at string) error {
	return s.send(fmt.Sprintf("retry: %d\nid: %s\n\n", retryAfter, at))
}

// alive tells the place, if nothing was told for long: so that a watcher that comes back does not begin far behind, and a proxy does not take it for dead.
func (s *serverSent) alive(at string) error {
	if time.Since(s.beat) < beatEvery {
		return nil
	}
	return s.send(fmt.Sprintf("id: %s\n\n", at))
}

func (s *serverSent) send(text string) error {
	control := http.NewResponseController(s.out)
	if err := control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := s.out.Write([]byte(text)); err != nil {
		return err
	}
	s.beat = time.Now()
	return control.Flush()
}
