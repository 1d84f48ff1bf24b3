package rootblob

import (
	"cmp"
	"context"

	"gocloud.dev/blob/driver"
)

const defaultPageSize = 1000

// ListPaged walks the folder in the order of keys. The token of the next page is the last key of this one.
// The walk holds the names of one folder per level, and no more than a page of the rest.
func (b *bucket) ListPaged(ctx context.Context, opts *driver.ListOptions) (*driver.ListPage, error) {
	listing := &Listing{}
	if opts.BeforeList != nil {
		if err := opts.BeforeList(func(i any) bool { return as(i, listing) }); err != nil {
			return nil, err
		}
	}
	size := cmp.Or(opts.PageSize, defaultPageSize)
	w, err := b.resume(ctx, string(opts.PageToken), opts, listing)
	if err != nil {
		return nil, err
	}
	page := &driver.ListPage{}
	for len(page.Objects) < size {
		object, err := w.next(ctx)
		if err = cmp.Or(err, ctx.Err()); err != nil || object == nil {
			w.close()
			return page, err
		}
		page.Objects = append(page.Objects, object)
	}
	last := page.Objects[len(page.Objects)-1].Key
	page.NextPageToken = []byte(last)
	w.token = last
	b.park(w)
	return page, nil
}

// resume takes the parked walk if token and opts continue it, else begins a walk after token.
func (b *bucket) resume(ctx context.Context, token string, opts *driver.ListOptions, listing *Listing) (*walk, error) {
	b.mu.Lock()
	parked := b.parked
	b.parked = nil
	b.mu.Unlock()
	if parked != nil {
		if token != "" && parked.token == token && parked.prefix == opts.Prefix && parked.delimiter == opts.Delimiter {
			parked.listing = listing
			return parked, nil
		}
		parked.close()
	}
	return newWalk(ctx, b, opts.Prefix, opts.Delimiter, token, listing)
}

func (b *bucket) park(w *walk) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parked != nil {
		b.parked.close()
	}
	b.parked = w
}
