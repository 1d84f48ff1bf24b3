package api

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

// Paging is how a list is asked for in pages.
type Paging struct {
	PageSize  int64  `query:"page_size" minimum:"1" maximum:"500" default:"50" format:"int32" doc:"How many at most."`
	PageToken string `query:"page_token" maxLength:"500" doc:"The next_page_token of an earlier page, with the same filter."`
}

// LongPaging is Paging of what is named by texts of up to 2 KiB.
type LongPaging struct {
	PageSize  int64  `query:"page_size" minimum:"1" maximum:"500" default:"50" format:"int32" doc:"How many at most."`
	PageToken string `query:"page_token" maxLength:"20000" doc:"The next_page_token of an earlier page, with the same filter."`
}

func (p LongPaging) most() int32 { return int32(p.PageSize) }

func (p Paging) most() int32 { return int32(p.PageSize) }

// places is the key that page tokens are sealed with: a place may be a name that the page masks, or a number of what is others'.
type places struct{ key atomic.Pointer[cipher.AEAD] }

// sealer asks the database for the key, which all replicas have, the first time that it is needed.
func (p *places) sealer(ctx context.Context, pool *pgxpool.Pool) (cipher.AEAD, error) {
	if known := p.key.Load(); known != nil {
		return *known, nil
	}
	key, err := deadline.Get(ctx, "api.page_key", queryTimeout, dbgen.New(pool).PageKey)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	p.key.Store(&aead)
	return aead, nil
}

// place reads a page token into a place, which stays as it is where there is none. next makes the token of the next page, of the same filter.
func (a *API) place(ctx context.Context, token string, filter, into any) (next func(place any) *string, err error) {
	aead, err := a.places.sealer(ctx, a.pool)
	if err != nil {
		return nil, err
	}
	bound, err := json.Marshal(filter)
	if err != nil {
		return nil, err
	}
	next = func(place any) *string {
		at, err := json.Marshal(place)
		if err != nil {
			panic(err) // places are plain values
		}
		nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(at)+aead.Overhead())
		_, _ = rand.Read(nonce) // it never fails
		token := base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, at, bound))
		return &token
	}
	if token == "" {
		return next, nil
	}
	wrong := problem.Invalid("query.page_token", "must be the next_page_token of an earlier page, with the same filter")
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(sealed) < aead.NonceSize() {
		return nil, wrong
	}
	at, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], bound)
	if err != nil || json.Unmarshal(at, into) != nil {
		return nil, wrong
	}
	return next, nil
}

const (
	// portion is how many rows are read at once, so that a page of large ones is not read whole before it is cut.
	portion = 25
	// mostBytes is of how many bytes of large columns a page is made: secrets are masked in them.
	mostBytes = 128 << 10
)

// filled reads a page in portions, each behind the last row of the one before: up to most rows, and bytes of them, but at least one row where there is any.
func filled[T any](most int32, bytes int, size func(T) int, read func(rows int32, behind *T) ([]T, error)) (page []T, more bool, err error) {
	for {
		rows := min(portion, most-int32(len(page))) + 1
		var behind *T
		if len(page) > 0 {
			behind = &page[len(page)-1]
		}
		found, err := read(rows, behind)
		if err != nil {
			return nil, false, err
		}
		for _, row := range found {
			if bytes -= size(row); len(page) == int(most) || len(page) > 0 && bytes < 0 {
				return page, true, nil
			}
			page = append(page, row)
		}
		if len(found) < int(rows) {
			return page, false, nil
		}
	}
}

// cut is the first most of what was found, and whether there was more.
func cut[T any](found []T, most int32) ([]T, bool) {
	if len(found) > int(most) {
		return found[:most], true
	}
	return found, false
}
