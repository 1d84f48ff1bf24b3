package onedrive

import (
	"context"
	"fmt"
	"slices"

	"github.com/echomind/sync/services/connector/graph"
)

// below lists what lies below a folder that has come, or changed its place. Items that come or go meanwhile may be missed by
// it, and are in the next delta.
func (l *lister) below(ctx context.Context, top graph.Item) error {
	_, at, err := l.above(ctx, top.Parent.ID)
	switch {
	case err != nil:
		return err
	case at == outside:
		l.loses(top.ID)
		return nil
	case at != inside:
		l.listLater(top.ID)
		return nil
	}
	return l.under(ctx, top.ID, 0)
}

// under gives all that lies below a folder to the engine: page by page its files, and then the folders of the page, so that only the ids
// of a page of folders are held for each level.
func (l *lister) under(ctx context.Context, id string, depth int) error {
	if depth > maxDepth {
		return nil // nothing below it is inside, either
	}
	for link := l.api.Children(l.at.Drive, id, l.opts.PageSize); link != ""; {
		folders, next, err := l.children(ctx, id, link)
		if err != nil {
			return err
		}
		for _, one := range folders {
			if err := l.under(ctx, one, depth+1); err != nil {
				return err
			}
		}
		if next == link {
			break
		}
		link = next
	}
	return nil
}

// children lists a page of a folder. It gives the files to the engine, and returns the folders, and the link of the next page.
func (l *lister) children(ctx context.Context, id, link string) (folders []string, next string, err error) {
	page, err := l.api.Items(ctx, link)
	switch {
	case graph.IsGone(err) || graph.IsRefused(err):
		l.listLater(id)
		return nil, "", nil
	case err != nil:
		if err := l.s.Alone(ctx, err); err != nil {
			return nil, "", fmt.Errorf("list a folder: %w", err)
		}
		l.listLater(id)
		return nil, "", nil
	}
	items := lastOf(page.Value)
	for _, item := range items {
		if item.IsFolder() {
			l.tree.reported(item)
			folders = append(folders, item.ID)
		}
	}
	if err := l.forget(); err != nil {
		return nil, "", err
	}
	for _, item := range items {
		if item.IsFolder() {
			continue
		}
		if err := l.file(ctx, item); err != nil {
			return nil, "", err
		}
	}
	if page.Next != "" {
		if err := l.api.CheckLink(page.Next); err != nil {
			return nil, "", fmt.Errorf("list a folder: %w", err)
		}
	}
	return folders, page.Next, nil
}

// maxListed bounds the folders that the cursor holds, maxListedBytes the id of one of them.
const (
	maxListed      = 50
	maxListedBytes = 200
)

// listLater has the next sync list a folder that cannot be listed now; everything, where it would be too many.
func (l *lister) listLater(id string) {
	switch {
	case slices.Contains(l.at.Unlisted, id):
	case len(l.at.Unlisted) >= maxListed || len(id) > maxListedBytes:
		l.at.Relist = true
	default:
		l.at.Unlisted = append(l.at.Unlisted, id)
	}
}

// listUnlisted lists the folders that earlier syncs could not list. What is below one that is not there now either goes.
func (l *lister) listUnlisted(ctx context.Context, folders []string) error {
	for _, id := range folders {
		_, at, err := l.above(ctx, id)
		if err != nil {
			return err
		}
		if at == unknown {
			continue
		}
		l.at.Unlisted = slices.DeleteFunc(l.at.Unlisted, func(one string) bool { return one == id })
		if at != inside {
			l.loses(id)
			continue
		}
		if err := l.under(ctx, id, 0); err != nil {
			return err
		}
	}
	return l.removeLost(ctx)
}
