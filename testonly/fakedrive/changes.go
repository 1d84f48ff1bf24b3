package fakedrive

import (
	"net/http"
	"slices"
)

// changes is a feed. An item is in it once, at its last change: "an entry says what the item is now" ("Retrieve
// changes").
type changes struct {
	seq     int
	entries []entry
}

type entry struct {
	seq int
	id  string
}

func (c *changes) add(id string) {
	c.seq++
	// Few entries are old: the search begins at the end.
	for i := len(c.entries) - 1; i >= 0 && i >= len(c.entries)-1000; i-- {
		if c.entries[i].id == id {
			c.entries = slices.Delete(c.entries, i, i+1)
			break
		}
	}
	c.entries = append(c.entries, entry{c.seq, id})
}

// feed is the one that a request is about.
func (s *Server) feed(w http.ResponseWriter, r *http.Request) (*changes, string) {
	drive := r.URL.Query().Get("driveId")
	if drive != "" && (s.drives[drive] == nil || !s.drives[drive].member) {
		fail(w, http.StatusNotFound, "notFound", "Shared drive not found: "+drive, "driveId")
		return nil, ""
	}
	if drive != "" && r.URL.Query().Get("supportsAllDrives") != "true" {
		fail(w, http.StatusForbidden, "teamDrivesNotSupported", "supportsAllDrives must be true", "driveId")
		return nil, ""
	}
	return s.feeds[drive], drive
}

func (s *Server) startToken(w http.ResponseWriter, r *http.Request) {
	feed, drive := s.feed(w, r)
	if feed == nil {
		return
	}
	answer(w, r, map[string]any{
		"kind": "drive#startPageToken", "startPageToken": s.token("changes"+drive, feed.seq),
	}, "*")
}

func (s *Server) changes(w http.ResponseWriter, r *http.Request) {
	feed, drive := s.feed(w, r)
	if feed == nil {
		return
	}
	query := r.URL.Query()
	size, ok := s.pageSize(w, query)
	if !ok {
		return
	}
	if drive != "" && query.Get("includeItemsFromAllDrives") != "true" {
		fail(w, http.StatusForbidden, "teamDrivesParentLimit", "includeItemsFromAllDrives must be true", "driveId")
		return
	}
	if query.Get("pageToken") == "" {
		fail(w, http.StatusBadRequest, "required", "Required parameter: pageToken", "pageToken")
		return
	}
	from, ok := s.at(query.Get("pageToken"), "changes"+drive)
	if !ok {
		refuseToken(w)
		return
	}
	resource := map[string]any{"kind": "drive#changeList"}
	list, last := []any{}, from
	for _, e := range feed.entries {
		if e.seq <= from {
			continue
		}
		if len(list) == size {
			resource["nextPageToken"] = s.token("changes"+drive, last)
			break
		}
		last = e.seq
		if one := s.entry(e.id, drive); one != nil {
			list = append(list, one)
		}
	}
	if resource["nextPageToken"] == nil {
		resource["newStartPageToken"] = s.token("changes"+drive, feed.seq)
	}
	resource["changes"] = list
	answer(w, r, resource, "*")
}

// entry is a change as it stands now: gone from this feed, by deletion, loss of access or a move to another drive, or
// what the item is.
func (s *Server) entry(id, drive string) map[string]any {
	one := map[string]any{
		"kind": "drive#change", "changeType": "file", "time": s.clock.Format("2006-01-02T15:04:05.000Z"),
		"fileId": id, "removed": false,
	}
	f := s.files[id]
	if !s.visible(f) || s.driveOf(f) != drive {
		one["removed"] = true
		return one
	}
	one["file"] = s.resource(f)
	return one
}
