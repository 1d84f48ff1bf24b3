package answer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/echomind/sync/internal/repeat"
)

// ErrIncomplete says that an answer broke off, or is not what was listed.
var ErrIncomplete = errors.New("the answer is incomplete")

// Tries is how often a request is made whose answers are incomplete. Failures before an answer (throttling, resets, 5xx) are
// repeated by the client that a source is given.
const Tries = 4

// Repeat asks again where the answer was incomplete.
func Repeat(ctx context.Context, first time.Duration, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		if !errors.Is(err, ErrIncomplete) || try == Tries || ctx.Err() != nil {
			return err
		}
		if err := Pause(ctx, first, try); err != nil {
			return err
		}
	}
}

// Pause waits after a try. The pauses begin with first and double.
func Pause(ctx context.Context, first time.Duration, try int) error {
	return repeat.Sleep(ctx, repeat.Pauses{First: first, Last: first << (Tries - 1)}.After(try))
}

// Do makes a request. Its error does not name the address: tokens in it are long, and tokens of downloads are secret.
func Do(client *http.Client, req *http.Request) (*http.Response, error) {
	resp, err := client.Do(req)
	if wrapped, is := errors.AsType[*url.Error](err); is {
		err = wrapped.Err
	}
	return resp, err
}

// Drain reads the rest of an answer, so that the connection can be used again, unless much is left to read.
func Drain(body io.Reader) { _, _ = io.CopyN(io.Discard, body, 64<<10) }
