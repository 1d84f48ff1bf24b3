package signin

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Four wait for an issuer that hangs; it is asked once for all of them, and not again before the pause that begins where the try ends. Who has gone waits no longer,
// and who has an old answer not at all.
func TestWhoWaitsForAnIssuerThatHangsWaitsForOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, hangs := 0, true
		f := &fetched[string]{now: time.Now, warn: func(error) {}, ask: func(context.Context) (string, error) {
			asked++
			if hangs {
				time.Sleep(fetchTimeout)
				return "", errors.New("it hangs")
			}
			return "answer", nil
		}}
		never := func(string) bool { return false }
		began := time.Now()
		left, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				ctx, most := t.Context(), fetchTimeout
				if i == 0 {
					ctx, most = left, time.Second
				}
				if _, away := f.get(ctx, never); away == nil || time.Since(began) > most {
					t.Errorf("%v after %s", away, time.Since(began))
				}
			})
		}
		all.Wait()
		for range 100 {
			if _, away := f.get(t.Context(), never); away == nil || away.RetryAfter != fetchPause {
				t.Errorf("%+v", away)
			}
		}
		if took := time.Since(began); asked != 1 || took != fetchTimeout {
			t.Errorf("asked %d times in %s", asked, took)
		}
		time.Sleep(fetchPause)
		hangs = false
		if held, away := f.get(t.Context(), never); held != "answer" || away != nil || asked != 2 {
			t.Errorf("%q, %v, asked %d times", held, away, asked)
		}
		time.Sleep(keysFresh + time.Second)
		hangs = true
		began = time.Now()
		if held, away := f.get(t.Context(), never); held != "answer" || away != nil || time.Since(began) > 0 {
			t.Errorf("%q, %v after %s", held, away, time.Since(began))
		}
		synctest.Wait()
		if asked != 3 {
			t.Errorf("asked %d times", asked)
		}
		time.Sleep(keysKept)
	})
}
