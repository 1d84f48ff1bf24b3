package teams

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/services/connector/graph"
)

// deltaOverlap is how far the first delta reaches back before the listing began: the clocks of a large service differ.
const deltaOverlap = 5 * time.Minute

// messages reads everything once, and then changes.
func (c *channel) messages(ctx context.Context) error {
	if c.state.Delta == "" && !c.state.Listed {
		if err := c.list(ctx); err != nil {
			return err
		}
	}
	return c.delta(ctx)
}

// list reads all messages of the channel. Only threads are listed: an attachment goes with its thread.
func (c *channel) list(ctx context.Context) error {
	link := c.state.Listing
	if link == "" {
		link = c.api.URL(c.path("/messages"), url.Values{"$top": {strconv.Itoa(c.pageSize)}, "$expand": {"replies"}})
		c.sync.BeginListing()
	} else {
		c.sync.ResumeListing()
	}
	for {
		page, at, err := c.page(ctx, "list messages", link)
		if err != nil {
			return err
		}
		if c.state.Since == "" {
			if at.IsZero() {
				return errors.New("list messages: the answer does not say the time")
			}
			c.state.Since = at.Add(-deltaOverlap).UTC().Format(time.RFC3339)
		}
		if err := c.threads(ctx, page.Value); err != nil {
			return err
		}
		if page.Next == "" {
			break
		}
		link, c.state.Listing = page.Next, page.Next
		if err := c.sync.Checkpoint(ctx, c.state); err != nil {
			return err
		}
	}
	err := c.sync.EndListing(ctx, func(id string, _ source.Stored) bool {
		thread, file := split(id)
		return file && !c.sync.Missing(thread)
	})
	if err != nil {
		return err
	}
	c.state.Listing, c.state.Listed = "", true
	return c.sync.Checkpoint(ctx, c.state)
}

// delta reads what has changed since the last sync, or since the listing began.
func (c *channel) delta(ctx context.Context) error {
	if c.state.Delta == "" {
		query := url.Values{"$top": {strconv.Itoa(c.pageSize)}, "$expand": {"replies"}}
		if c.state.Since != "" {
			query.Set("$filter", "lastModifiedDateTime gt "+c.state.Since)
		}
		c.state.Delta = c.api.URL(c.path("/messages/delta"), query)
	}
	continued := c.state.Paging
	for {
		page, _, err := c.page(ctx, "list changed messages", c.state.Delta)
		if err != nil {
			return err
		}
		if err := c.threads(ctx, page.Value); err != nil {
			return err
		}
		if c.state.Delta, c.state.Paging = page.Next+page.Delta, page.Next != ""; c.state.Delta == "" {
			return errors.New("list changed messages: the answer does not say how to go on")
		}
		switch {
		case page.Next != "":
		case continued:
			continued = false // the resumed round may have begun long ago
			continue
		default:
			return nil
		}
		if err := c.sync.Checkpoint(ctx, c.state); err != nil {
			return err
		}
	}
}

// page asks for a page of messages.
func (c *channel) page(ctx context.Context, doing, link string) (page graph.Page[graph.Message], at time.Time, err error) {
	page, at, err = c.api.Messages(ctx, link)
	if err != nil {
		return page, at, fmt.Errorf("%s: %w", doing, err)
	}
	c.result.Pages++
	c.setTime(at)
	return page, at, checkNext(c.api, doing, link, &page)
}

// checkNext refuses a page that leads to itself, or to another host.
func checkNext[T any](api *graph.Client, doing, link string, page *graph.Page[T]) error {
	if page.Next != "" {
		page.Delta = ""
	}
	switch next := page.Next + page.Delta; {
	case next == "":
		return nil
	case page.Next == link:
		return fmt.Errorf("%s: a page leads to itself", doing)
	default:
		if err := api.CheckLink(next); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	return nil
}
