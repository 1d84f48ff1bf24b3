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

// cut is the first most of what was found, and whether there was more.
func cut[T any](found []T, most int32) ([]T, bool) {
	if len(found) > int(most) {
		return found[:most], true
	}
	return found, false
}
