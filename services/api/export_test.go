package api

import (
	"context"
	"time"
)

// WorkBatch does the next batch of an operation, as a replica does it again and again.
func (a *API) WorkBatch(ctx context.Context) (worked bool, err error) { return a.workBatch(ctx) }

// WorkLetters does the next turn of an operation on dead letters.
func (a *API) WorkLetters(ctx context.Context) (worked bool, err error) { return a.workLetters(ctx) }

// ForgetOperations removes those that ended long ago.
func (a *API) ForgetOperations(ctx context.Context) error { return a.forgetOperations(ctx) }

// BoundOperations says how many connectors one operation may change.
func (a *API) BoundOperations(most int) { a.bulk.most = most }

// Unhurried has a batch work until it is done, however busy the machine is.
func (a *API) Unhurried() { a.bulk.time = time.Hour }
