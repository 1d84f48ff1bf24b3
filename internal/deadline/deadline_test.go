package deadline

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestALateCallIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Do(t.Context(), "scheduler.claim", 5*time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("something about a closed connection")
		})
		var late *Error
		if !errors.As(err, &late) || late.Name != "scheduler.claim" || late.After != 5*time.Second {
			t.Errorf("error %#v", err)
		}
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "scheduler.claim: no answer within 5s" {
			t.Errorf("error %v", err)
		}
	})
}

func TestAnAnswerInTimeIsReturned(t *testing.T) {
	broken := errors.New("broken")
	if err := Do(t.Context(), "call", time.Hour, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	got, err := Get(t.Context(), "call", time.Hour, func(context.Context) (int, error) { return 7, nil })
	if got != 7 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestADeadlineWithoutANameGetsTheCalls(t *testing.T) {
	err := Do(t.Context(), "scheduler.claim", time.Hour, func(context.Context) error {
		return fmt.Errorf("connect: %w", context.DeadlineExceeded)
	})
	if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "scheduler.claim: connect: context deadline exceeded" {
		t.Errorf("error %v", err)
	}
	inner := &Error{Name: "inner", After: time.Second}
	if err := Do(t.Context(), "outer", time.Hour, func(context.Context) error { return inner }); !errors.Is(err, inner) || err.Error() != inner.Error() {
		t.Errorf("error %v", err)
	}
}

func TestASuccessThatCameLateIsASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := Get(t.Context(), "call", time.Second, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "committed", nil
		})
		if got != "committed" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestAStopIsNotALateAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Do(ctx, "call", time.Hour, func(ctx context.Context) error { return ctx.Err() })
	if !errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestTheCallersOwnDeadlineKeepsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Do(t.Context(), "outer", time.Second, func(ctx context.Context) error {
			return Do(ctx, "inner", time.Hour, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
		})
		var late *Error
		if !errors.As(err, &late) || late.Name != "outer" {
			t.Errorf("error %v", err)
		}
	})
}
