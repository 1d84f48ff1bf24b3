package client

import (
	"errors"
	"iter"
)

// ErrPages says that the next page of a list was read already.
var ErrPages = errors.New("the API names a page as the next that was read already")

// Pages walks over a list, which the API answers a page at a time: ask asks for a page, by its token, and says what is on it and which page is the next.
// An error ends the walk.
//
//	for connector, err := range client.Pages(func(token *string) ([]client.Connector, *string, error) {
//		page, err := c.ConnectorsListWithResponse(ctx, &client.ConnectorsListParams{PageToken: token})
//		if err != nil {
//			return nil, nil, err
//		}
//		return *page.JSON200.Connectors, page.JSON200.NextPageToken, nil
//	}) { … }
func Pages[T any](ask func(token *string) (page []T, next *string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		var token *string
		read := map[string]bool{}
		for {
			page, next, err := ask(token)
			if err == nil && next != nil {
				if read[*next] {
					err = ErrPages
				}
				read[*next] = true
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, one := range page {
				if !yield(one, nil) {
					return
				}
			}
			if token = next; token == nil {
				return
			}
		}
	}
}
