package onedrive

import (
	"context"

	"github.com/echomind/sync/services/connector/graph"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// listMoved lists the contents of a folder that has appeared or moved. Items that come or go meanwhile may be missed, and are in
// the next delta. Where a folder cannot be listed, the next sync lists everything.
func (l *lister) listMoved(ctx context.Context, top graph.Item) error {
	_, at, err := l.foldersAbove(ctx, top.Parent.ID)
	switch {
	case err != nil:
		return err
	case at == inside:
		return l.listTree(ctx, top.ID, 0)
	case at == outside:
		l.markLost(top.ID)
	default:
		l.cursor.Relist = true
	}
	return nil
}

// listTree gives everything below a folder to the engine, page by page: first the files of the page, then its folders, so that only
// the ids of one page of folders are held for each level.
func (l *lister) listTree(ctx context.Context, id string, depth int) error {
	if depth > maxDepth {
		return nil // nothing that deep is inside the connector's folder
	}
	for link := l.api.Children(l.place.Drive, id, l.opts.PageSize); link != ""; {
		folders, next, err := l.listChildren(ctx, link)
		if err != nil {
			return err
		}
		for _, one := range folders {
			if err := l.listTree(ctx, one, depth+1); err != nil {
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

// listChildren lists one page of a folder. It gives the files to the engine, and returns the folders, and the link of the next
// page.
func (l *lister) listChildren(ctx context.Context, link string) (folders []string, next string, err error) {
	page, err := l.api.Items(ctx, link)
	if err != nil {
		l.cursor.Relist = true
		if graph.IsGone(err) || graph.IsRefused(err) {
			return nil, "", nil
		}
		return nil, "", l.s.FailAlone(ctx, err)
	}
	items := answer.LastOf(page.Value, func(i graph.Item) string { return i.ID })
	for _, item := range items {
		if item.IsFolder() {
			l.updateFolder(item)
			folders = append(folders, item.ID)
		}
	}
	if err := l.shrinkTree(); err != nil {
		return nil, "", err
	}
	return folders, page.Next, l.files(ctx, items)
}
