package lifecycle_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/lifecycle"
)

func TestOfEightCallersOneCompletes(t *testing.T) {
	f := newFixture(t)
	c := f.stored(3)
	var done atomic.Int32
	var callers sync.WaitGroup
	begin := make(chan struct{})
	for range 8 {
		callers.Go(func() {
			<-begin
			switch _, err := f.Complete(ctx, c.try.Run); {
			case err == nil:
				done.Add(1)
			case !errors.Is(err, lifecycle.ErrFenced) && !errors.Is(err, lifecycle.ErrHeld):
				t.Errorf("complete: %v", err)
			}
		})
	}
	close(begin)
	callers.Wait()
	require.Equal(t, int32(1), done.Load())
	require.Equal(t, "completed", run[string](f, c, "status"))
}
