package api

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/echomind/sync/internal/caught"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

const (
	// keepUploadsEvery is how often objects that no file has are looked for.
	keepUploadsEvery = time.Minute
	// sweptAtOnce is how many files of a deleted connector one statement takes, removedAtOnce how many objects are removed between two.
	sweptAtOnce   = 1000
	removedAtOnce = 100
)

// keepUploads removes from the bucket what no file has, until ctx ends. Each replica does: a removal is harmless twice.
func (a *API) keepUploads(ctx context.Context) error {
	if a.bucket == nil {
		return nil
	}
	for {
		if err := caught.Do(func() error { return a.RemoveDropped(ctx) }); err != nil && ctx.Err() == nil {
			a.log.Warn("uploaded files that were replaced or deleted stay in the bucket; they are removed later", "err", err)
		}
		if repeat.Sleep(ctx, keepUploadsEvery) != nil {
			return nil
		}
	}
}

// RemoveDropped removes from the bucket what no file has and is due. It ends when nothing is, or with the first error.
func (a *API) RemoveDropped(ctx context.Context) error {
	q := dbgen.New(a.pool)
	for more := true; more; {
		var err error
		more, err = deadline.Get(ctx, "api.sweep_uploads", queryTimeout, func(ctx context.Context) (bool, error) { return q.SweepUploads(ctx, sweptAtOnce) })
		if err != nil {
			return err
		}
	}
	for {
		due, err := deadline.Get(ctx, "api.due_objects", queryTimeout, func(ctx context.Context) ([]uuid.UUID, error) { return q.DueObjects(ctx, removedAtOnce) })
		if err != nil || len(due) == 0 {
			return err
		}
		var removed, stay []uuid.UUID
		var problems error
		for _, object := range due {
			if err := a.bucket.Remove(ctx, object); err != nil {
				problems, stay = errors.Join(problems, err), append(stay, object)
				continue
			}
			removed = append(removed, object)
		}
		err = deadline.Do(ctx, "api.forget_objects", queryTimeout, func(ctx context.Context) error { return q.ForgetObjects(ctx, removed) })
		if err == nil && len(stay) > 0 { // behind the others: what cannot be removed holds none of them up
			err = deadline.Do(ctx, "api.abandon_objects", queryTimeout, func(ctx context.Context) error {
				_, err := q.AbandonObjects(ctx, stay)
				return err
			})
		}
		if err = errors.Join(problems, err); err != nil {
			return err
		}
	}
}

// removeAbandoned removes what was written of an upload that failed, but for objects that are files all the same: the answer to their commit was lost.
func (a *API) removeAbandoned(ctx context.Context, objects []uuid.UUID) error {
	if len(objects) == 0 {
		return nil
	}
	abandoned, err := dbgen.New(a.pool).AbandonObjects(ctx, objects)
	if err != nil {
		return err
	}
	for _, object := range abandoned {
		if err := a.bucket.Remove(ctx, object); err != nil {
			return err
		}
	}
	return nil
}
