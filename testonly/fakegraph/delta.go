package fakegraph

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // as the service lists it
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/echomind/sync/internal/quickxor"
)

// cursor is what an opaque token holds.
type cursor struct {
	Epoch int    `json:"e"`
	Scope string `json:"s"`
	Since int64  `json:"f"` // changes after it are reported; 0 lists everything
	Upto  int64  `json:"u"` // where the round began; 0 begins one
	After int64  `json:"a"` // the last change that was reported in this round
	Top   int    `json:"t"`
	Last  string `json:"l"` // the last item of the page before
}

func (c cursor) String() string {
	data, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseCursor(text string) (c cursor, ok bool) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	return c, err == nil && json.Unmarshal(data, &c) == nil
}

// delta answers as "driveItem: delta" says.
func (s *Server) delta(w http.ResponseWriter, r *http.Request, driveID string, scope *item) {
	here := s.Endpoint() + "/drives/" + url.PathEscape(driveID) + "/items/" + url.PathEscape(scope.id) + "/delta"
	query := r.URL.Query()
	top, _ := strconv.Atoi(query.Get("$top"))
	at := cursor{Epoch: s.epoch, Scope: scope.id, Top: top}
	switch token := query.Get("token"); token {
	case "":
	case "latest":
		at.Since = s.seq
	default:
		var ok bool
		if at, ok = parseCursor(token); !ok || at.Scope != scope.id {
			fail(w, http.StatusBadRequest, "invalidRequest")
			return
		}
		if at.Epoch != s.epoch {
			w.Header().Set("Location", here+"?token="+cursor{Epoch: s.epoch, Scope: scope.id, Top: at.Top}.String())
			fail(w, http.StatusGone, "resyncRequired", s.resync)
			return
		}
	}
	if at.Upto == 0 {
		at.Upto = s.seq
	}
	if scope.deleted {
		fail(w, http.StatusNotFound, "itemNotFound")
		return
	}
	due := s.due(at, scope)
	page := map[string]any{}
	values := []any{}
	if s.RepeatItems && at.Last != "" && s.items[at.Last] != nil && at.Since == 0 {
		values = append(values, s.render(s.items[at.Last], scope.id, true))
	}
	most := s.pageSize(at.Top)
	for i, it := range due {
		if i == most {
			break
		}
		if s.RepeatItems && i%3 == 0 && !it.deleted && !it.revoked && s.in(it, scope.id) {
			stale := s.render(it, scope.id, true)
			stale["name"], stale["eTag"] = "stale-"+it.name, "stale"
			values = append(values, stale)
		}
		if r.Header.Get("deltaExcludeParent") == "" && at.Since > 0 {
			for up := s.items[it.parent]; up != nil && s.in(up, scope.id); up = s.items[up.parent] {
				values = append(values, s.render(up, scope.id, true))
			}
		}
		values = append(values, s.render(it, scope.id, true))
		at.After, at.Last = it.seq, it.id
	}
	if len(due) > most {
		page["@odata.nextLink"] = here + "?token=" + at.String()
	} else {
		page["@odata.deltaLink"] = here + "?token=" + cursor{Epoch: s.epoch, Scope: scope.id, Since: max(at.Upto, 1), Top: at.Top}.String()
	}
	page["value"] = values
	answer(w, page)
}

// due are the items of a round that are still to be reported, in the order of their last changes. What changes while
// the round is read is left to the next one.
func (s *Server) due(at cursor, scope *item) []*item {
	var due []*item
	for _, it := range s.items {
		if it.drive != scope.drive || it.seq <= max(at.After, at.Since) || it.seq > at.Upto {
			continue
		}
		here := !it.deleted && !it.revoked && s.in(it, scope.id)
		if here || at.Since > 0 && it.been[scope.id] {
			due = append(due, it)
		}
	}
	slices.SortFunc(due, func(a, b *item) int { return cmp.Compare(a.seq, b.seq) })
	return due
}

// render writes an item as a driveItem, seen from a folder.
func (s *Server) render(it *item, scope string, inDelta bool) map[string]any {
	out := map[string]any{"id": it.id, "parentReference": map[string]any{"driveId": it.drive, "id": it.parent}}
	if it.parent == "" {
		out["root"] = map[string]any{}
		out["parentReference"] = map[string]any{"driveId": it.drive}
	}
	gone := it.deleted || it.revoked || scope != "" && !s.in(it, scope)
	if gone {
		out["deleted"] = map[string]any{"state": "deleted"}
		if !s.Business {
			out["name"] = it.name
		} else {
			out["size"] = len(it.content)
		}
		return out
	}
	out["name"], out["webUrl"] = it.name, s.webURL(it)
	out["eTag"] = fmt.Sprintf(`"%s,%d"`, it.id, it.etag)
	if it.folder {
		out["folder"] = map[string]any{"childCount": len(s.below(it.id))}
		return out
	}
	switch {
	case it.pack:
		out["package"], out["size"] = map[string]any{"type": "oneNote"}, 1234
		return out
	case it.remote:
		out["remoteItem"], out["size"] = map[string]any{"id": "elsewhere!1", "folder": map[string]any{}}, 0
		return out
	}
	if !inDelta || !s.Business {
		out["cTag"] = fmt.Sprintf(`"c:%s,%d"`, it.id, it.ctag)
	}
	xor := quickxor.Sum(it.content)
	hashes := map[string]any{"quickXorHash": base64.StdEncoding.EncodeToString(xor[:])}
	if !s.Business {
		sum := sha1.Sum(it.content) //nolint:gosec // as the service lists it
		hashes["sha1Hash"] = hex.EncodeToString(sum[:])
	}
	mediaType := it.mediaType
	if mediaType == "" {
		mediaType = "text/plain"
	}
	out["file"] = map[string]any{"mimeType": mediaType, "hashes": hashes}
	out["size"] = len(it.content) + it.sizeOff
	if it.malware {
		out["malware"] = map[string]any{"description": "a test file"}
	} else {
		out["@microsoft.graph.downloadUrl"] = s.downloadURL(it)
	}
	return out
}
