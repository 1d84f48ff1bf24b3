package api

import (
	"context"
	"crypto/sha256"
	"hash"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/services/api/internal/dbgen"
)

const headerKey = "Idempotency-Key"

// Once is of a change that is done once, however often it is sent with one key.
type Once struct {
	Key string `header:"Idempotency-Key" maxLength:"200" pattern:"^[!-~]*$" doc:"A name of your own for this request. Sent again within 24 hours, with the same path and body, it is not done again, and answered with what has come of it."`
}

// OnceByID is such a change of what has a number.
type OnceByID struct {
	ByID
	Once
}

// keyed is a request with such a key, as far as it is read.
type keyed struct {
	key  string
	read hash.Hash
}

// inner gives the embedded context a name that is none of its methods.
type inner = huma.Context

// keyedContext reads a body into the key's hash.
type keyedContext struct {
	inner
	read hash.Hash
}

// BodyReader is part of huma.Context.
func (c keyedContext) BodyReader() io.Reader { return io.TeeReader(c.inner.BodyReader(), c.read) }

// withKey has a request remember its key, and what it asks for.
func withKey(ctx huma.Context) huma.Context {
	key := ctx.Header(headerKey)
	if key == "" {
		return ctx
	}
	k := keyed{key, sha256.New()}
	address := ctx.URL()
	_, _ = io.WriteString(k.read, ctx.Method()+" "+address.RequestURI()+"\n") // a hash takes everything
	return keyedContext{huma.WithValue(ctx, keyedKey, k), k.read}
}

// once is in for a change that its caller may send again: do changes something and says what is to be shown, show answers with that. What was done with the key of the
// request is only shown.
func (a *API) once(ctx context.Context, do func(context.Context, *dbgen.Queries) (done string, err error), show func(ctx context.Context, q *dbgen.Queries, done string) error) error {
	k, has := ctx.Value(keyedKey).(keyed)
	return a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if !has {
			done, err := do(ctx, q)
			if err != nil {
				return err
			}
			return show(ctx, q, done)
		}
		begun, err := q.BeginRequest(ctx, dbgen.BeginRequestParams{Key: k.key, Asked: k.read.Sum(nil)})
		if err != nil {
			return err
		}
		done := begun.Done
		if !begun.Again {
			if done, err = do(ctx, q); err != nil {
				return err
			}
			failpoint.At("api.changing")
			if err := q.EndRequest(ctx, dbgen.EndRequestParams{Key: k.key, Done: done}); err != nil {
				return err
			}
		}
		return show(ctx, q, done)
	})
}
