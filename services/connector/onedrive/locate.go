package onedrive

import (
	"context"
	"fmt"
	"strings"

	"github.com/echomind/sync/sdk/source"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/graph"
)

// locate finds the drive and the folder of the configuration, once. Their ids are kept, so that a renamed folder stays the
// connector's, and later syncs ask for changes only.
func (l *lister) locate(ctx context.Context) error {
	if l.place.Drive != "" && l.place.Root != "" {
		return l.checkMoved(ctx)
	}
	drive, named, err := l.findDrive(ctx)
	if err != nil {
		return l.rootError(err, named)
	}
	path := "/drives/" + graph.Segment(drive) + "/root"
	switch {
	case l.cfg.Item != "":
		path, named = "/drives/"+graph.Segment(drive)+"/items/"+graph.Segment(l.cfg.Item), "item_id "+l.cfg.Item
	case strings.Trim(l.cfg.Folder, "/") != "":
		path, named = path+":/"+escaped(l.cfg.Folder), "folder "+l.cfg.Folder
	}
	var root graph.Item
	if err := l.api.Get(ctx, l.api.URL(path, nil), nil, &root); err != nil {
		return l.rootError(err, named)
	}
	if root.RemoteItem != nil {
		return worker.Permanent(fmt.Errorf("%s: it is a shortcut to another drive; name that drive's folder itself", named))
	}
	if !root.IsFolder() && root.Root == nil {
		return worker.Permanent(fmt.Errorf("%s: it is not a folder; name the folder it is in", named))
	}
	l.place = place{Drive: drive, Root: root.ID, Whole: root.Root != nil, URL: source.Short(root.WebURL)}
	return l.s.SetPlace(l.place)
}

// checkMoved asks for the connector's folder. Its delta does not report that a folder above it was renamed, which changes the URLs
// of all documents. The root of a drive never moves.
func (l *lister) checkMoved(ctx context.Context) error {
	if l.place.Whole {
		return nil
	}
	root, err := l.api.Item(ctx, l.place.Drive, l.place.Root)
	if err == nil && root.Deleted != nil {
		err = graph.ErrVanished
	}
	if err != nil {
		return l.rootError(err, "the connector's folder")
	}
	if url := source.Short(root.WebURL); url != l.place.URL {
		l.movedTo = url
	}
	return nil
}

// rootError turns an error about the drive or folder into the error of the sync. A place that was synced before may come back: an
// administrator restores it, or the service is disturbed. A place that was never synced is a mistake in the configuration.
func (l *lister) rootError(err error, named string) error {
	switch {
	case !graph.IsGone(err):
		return graph.AsPermanent(err, named)
	case !l.s.First():
		return fmt.Errorf("%s was synced before, and is not there now; the next try looks for it again: if it is gone for good, "+
			"name another in the configuration, or delete the connector: %w", named, err)
	}
	return worker.Permanent(fmt.Errorf("%s: it does not exist, or the account cannot see it: %w", named, err))
}

func (l *lister) findDrive(ctx context.Context) (id, named string, err error) {
	var path string
	switch {
	case l.cfg.Drive != "":
		return l.cfg.Drive, "drive_id " + l.cfg.Drive, nil
	case l.cfg.Site != "" && l.cfg.Library != "":
		return l.findLibrary(ctx)
	case l.cfg.Site != "":
		path, named = sitePath(l.cfg.Site, "/drive"), "site "+l.cfg.Site
	case l.cfg.Group != "":
		path, named = "/groups/"+graph.Segment(l.cfg.Group)+"/drive", "group_id "+l.cfg.Group
	case l.cfg.User != "":
		path, named = "/users/"+graph.Segment(l.cfg.User)+"/drive", "user "+l.cfg.User
	default:
		path, named = "/me/drive", "the account's own drive"
	}
	var drive struct {
		ID string `json:"id"`
	}
	if err := l.api.Get(ctx, l.api.URL(path, nil), nil, &drive); err != nil {
		return "", named, err
	}
	return drive.ID, named, nil
}

func (l *lister) findLibrary(ctx context.Context) (id, named string, err error) {
	named = "site " + l.cfg.Site
	for link := l.api.URL(sitePath(l.cfg.Site, "/drives"), nil); link != ""; {
		var page graph.Page[struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		}]
		if err := l.api.Get(ctx, link, nil, &page); err != nil {
			return "", named, err
		}
		for _, d := range page.Value {
			if strings.EqualFold(d.Name, l.cfg.Library) {
				return d.ID, named, nil
			}
		}
		if page.Next == link {
			break
		}
		link = page.Next
	}
	// The error does not list the libraries: the application may see more than the connector's author.
	return "", named, worker.Permanent(fmt.Errorf("library: %q is not in the site; write its name as the site shows it", l.cfg.Library))
}

// sitePath addresses a site by id or by host:/path ("Get a SharePoint site").
func sitePath(site, rest string) string {
	host, path, found := strings.Cut(site, ":/")
	if !found {
		return "/sites/" + graph.Segment(site) + rest
	}
	return "/sites/" + graph.Segment(host) + ":/" + escaped(path) + ":" + rest
}

// escaped escapes the segments of a path.
func escaped(path string) string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i := range segments {
		segments[i] = graph.Segment(segments[i])
	}
	return strings.Join(segments, "/")
}
