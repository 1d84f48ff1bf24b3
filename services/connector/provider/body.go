package provider

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/echomind/sync/internal/deadline"
)

// body ends a download that stalls, or that takes too long altogether.
type body struct {
	io.ReadCloser
	ctx context.Context
	end context.CancelCauseFunc
	// still runs while a Read does, whole until the body is closed.
	still, whole *time.Timer
	idle         time.Duration
}

func newBody(ctx context.Context, end context.CancelCauseFunc, inner io.ReadCloser, name string, limits Limits) *body {
	ends := func(part string, after time.Duration) *time.Timer {
		late := &deadline.Error{Name: name + part, After: after}
		return time.AfterFunc(after, func() { end(late) })
	}
	b := &body{
		ReadCloser: inner, ctx: ctx, end: end, idle: limits.Idle,
		still: ends(".read", limits.Idle), whole: ends(".body", limits.Body),
	}
	b.still.Stop()
	return b
}

func (b *body) Read(p []byte) (int, error) {
	b.still.Reset(b.idle)
	n, err := b.ReadCloser.Read(p)
	b.still.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = lateOr(b.ctx, err)
	}
	return n, err
}

func (b *body) Close() error {
	b.still.Stop()
	b.whole.Stop()
	err := b.ReadCloser.Close()
	b.end(nil)
	return err
}

// lateOr is the deadline that has ended a request, or the error that it ended with.
func lateOr(ctx context.Context, err error) error {
	if late, is := errors.AsType[*deadline.Error](context.Cause(ctx)); is {
		return late
	}
	return err
}
