package caught_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/caught"
)

func TestAGoroutineThatEndsItselfIsAnError(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, caught.Do(func() error {
		runtime.Goexit()
		return nil
	}), caught.ErrGoexit)
	require.NoError(t, caught.Do(func() error { return nil }))
}

func TestAPanicIsAnErrorThatSaysWhere(t *testing.T) {
	t.Parallel()
	err := caught.Do(func() error { panic("odd") })
	var p *caught.Panic
	require.ErrorAs(t, err, &p)
	require.Regexp(t, `^reading it panicked at caught_test.go:\d+: odd; report this`, err.Error())
	var none []int
	require.ErrorContains(t, caught.Do(func() error { _ = none[5]; return nil }), "at caught_test.go:")
	own := errors.New("own")
	require.Equal(t, own, caught.Do(func() error { return own }))
	require.NoError(t, caught.Do(func() error { return nil }))
}
