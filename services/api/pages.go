package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

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

// cursor is where a page begins, and for which filter.
type cursor struct {
	Filter []byte          `json:"f"`
	Place  json.RawMessage `json:"p"`
}

func filterHash(filter any) []byte {
	text, err := json.Marshal(filter)
	if err != nil {
		panic(err) // filters are plain values
	}
	sum := sha256.Sum256(text)
	return sum[:12]
}

// pageToken is the place of the next page of a list with this filter.
func pageToken(filter, place any) *string {
	at, err := json.Marshal(place)
	if err != nil {
		panic(err) // places are plain values
	}
	text, err := json.Marshal(cursor{filterHash(filter), at})
	if err != nil {
		panic(err)
	}
	token := base64.RawURLEncoding.EncodeToString(text)
	return &token
}

// place reads a page token into a place, which stays as it is where there is none.
func place(token string, filter, into any) error {
	if token == "" {
		return nil
	}
	wrong := problem.Invalid("query.page_token", "must be the next_page_token of an earlier page, with the same filter")
	text, err := base64.RawURLEncoding.DecodeString(token)
	var c cursor
	if err != nil || json.Unmarshal(text, &c) != nil || string(c.Filter) != string(filterHash(filter)) || json.Unmarshal(c.Place, into) != nil {
		return wrong
	}
	return nil
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
