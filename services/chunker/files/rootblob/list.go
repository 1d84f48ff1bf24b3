package rootblob

import (
	"context"
	"strings"

	"gocloud.dev/blob/driver"
)

const defaultPageSize = 1000

// ListPaged walks the folder in the order of keys. The token of the next page is the last key of this one.
// The walk holds the names of one folder per level, and no more than a page of the rest.
func (b *bucket) ListPaged(ctx context.Context, opts *driver.ListOptions) (*driver.ListPage, error) {
	listing := &Listing{}
	if opts.BeforeList != nil {
		as := func(i any) bool {
			p, ok := i.(**Listing)
			if ok {
				*p = listing
			}
			return ok
		}
		if err := opts.BeforeList(as); err != nil {
			return nil, err
		}
	}
	size := opts.PageSize
	if size == 0 {
		size = defaultPageSize
	}
	w, err := b.resume(ctx, string(opts.PageToken), opts, listing)
	if err != nil {
		return nil, err
	}
	page := &driver.ListPage{}
	for len(page.Objects) < size {
		if err := ctx.Err(); err != nil {
			w.close()
			return nil, err
		}
		object, err := w.next(ctx)
		if err != nil {
			w.close()
			return nil, err
		}
		if object == nil {
			w.close()
			return page, nil
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

// mayHold tells whether keys under dir (with a slash at its end) can have the prefix.
func mayHold(dir, prefix string) bool {
	return strings.HasPrefix(dir, prefix) || strings.HasPrefix(prefix, dir)
}
