package onedrive

import (
	"context"
	"fmt"
	"strings"

	"github.com/echomind/sync/services/connector/graph"
)

// locate finds the drive and the folder that the configuration names, once: their ids are kept in the state, so that
// a folder that is renamed stays the connector's, and later syncs ask for nothing but changes.
func (s *syncer) locate(ctx context.Context) error {
	if s.state.Drive != "" && s.state.Root != "" {
		return s.moved(ctx)
	}
	drive, named, err := s.findDrive(ctx)
	if err != nil {
		return graph.AsPermanent(err, named)
	}
	path := "/drives/" + graph.Segment(drive) + "/root"
	switch {
	case s.cfg.Item != "":
		path, named = "/drives/"+graph.Segment(drive)+"/items/"+graph.Segment(s.cfg.Item), "item_id "+s.cfg.Item
	case strings.Trim(s.cfg.Folder, "/") != "":
		segments := strings.Split(strings.Trim(s.cfg.Folder, "/"), "/")
		for i := range segments {
			segments[i] = graph.Segment(segments[i])
		}
		path, named = path+":/"+strings.Join(segments, "/"), "folder "+s.cfg.Folder
	}
	var root graph.Item
	if err := s.api.Get(ctx, s.api.URL(path, nil), nil, &root); err != nil {
		return graph.AsPermanent(err, named)
	}
	if root.RemoteItem != nil {
		return fmt.Errorf("%w: %s: it is a shortcut to another drive; name that drive's folder itself", graph.ErrPermanent, named)
	}
	if !root.IsFolder() && root.Root == nil {
		return fmt.Errorf("%w: %s: it is not a folder; name the folder it is in", graph.ErrPermanent, named)
	}
	s.state.Drive, s.state.Root, s.state.Whole = drive, root.ID, root.Root != nil
	s.state.URL = graph.Short(root.WebURL)
	return nil
}

// moved asks where the connector's folder is now. Its delta does not report that a folder above it was renamed, and all
// documents' URLs change with that. The root of a drive stays where it is.
func (s *syncer) moved(ctx context.Context) error {
	if s.state.Whole {
		return nil
	}
	root, err := s.api.Item(ctx, s.state.Drive, s.state.Root)
	if err != nil {
		return graph.AsPermanent(err, "the connector's folder")
	}
	if root.Deleted != nil {
		return errDeleted
	}
	if url := graph.Short(root.WebURL); url != s.state.URL {
		s.movedTo = url
	}
	return nil
}

var errDeleted = fmt.Errorf("%w: the connector's folder was deleted; name another, or delete the connector", graph.ErrPermanent)

func (s *syncer) findDrive(ctx context.Context) (id, named string, err error) {
	var path string
	switch {
	case s.cfg.Drive != "":
		return s.cfg.Drive, "drive_id " + s.cfg.Drive, nil
	case s.cfg.Site != "" && s.cfg.Library != "":
		return s.findLibrary(ctx)
	case s.cfg.Site != "":
		path, named = sitePath(s.cfg.Site, "/drive"), "site "+s.cfg.Site
	case s.cfg.Group != "":
		path, named = "/groups/"+graph.Segment(s.cfg.Group)+"/drive", "group_id "+s.cfg.Group
	case s.cfg.User != "":
		path, named = "/users/"+graph.Segment(s.cfg.User)+"/drive", "user "+s.cfg.User
	default:
		path, named = "/me/drive", "the account's own drive"
	}
	var drive struct {
		ID string `json:"id"`
	}
	if err := s.api.Get(ctx, s.api.URL(path, nil), nil, &drive); err != nil {
		return "", named, err
	}
	return drive.ID, named, nil
}

func (s *syncer) findLibrary(ctx context.Context) (id, named string, err error) {
	named = "site " + s.cfg.Site
	for link := s.api.URL(sitePath(s.cfg.Site, "/drives"), nil); link != ""; {
		var page graph.Page[struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		}]
		if err := s.api.Get(ctx, link, nil, &page); err != nil {
			return "", named, err
		}
		for _, d := range page.Value {
			if strings.EqualFold(d.Name, s.cfg.Library) {
				return d.ID, named, nil
			}
		}
		if page.Next == link {
			break
		}
		link = page.Next
	}
	// Not which there are: the application may see more than the connector's author.
	return "", named, fmt.Errorf("%w: library: %q is not in the site; write its name as the site shows it", graph.ErrPermanent, s.cfg.Library)
}

// sitePath addresses a site by id or by host:/path ("Get a SharePoint site").
func sitePath(site, rest string) string {
	host, path, found := strings.Cut(site, ":/")
	if !found {
		return "/sites/" + graph.Segment(site) + rest
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for i := range segments {
		segments[i] = graph.Segment(segments[i])
	}
	return "/sites/" + graph.Segment(host) + ":/" + strings.Join(segments, "/") + ":" + rest
}
