package googledrive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/internal/answer"
)

// DefaultEndpoint is Google's.
const DefaultEndpoint = "https://www.googleapis.com"

// limits are for a page of 1,000 items, with names as long as they may be.
var limits = answer.Limits{Bytes: 32 << 20, String: 1 << 20, Values: 500_000}

// api is the part of Drive API v3 that is needed: reading only.
type api struct {
	base   string
	client *http.Client
	pause  time.Duration
	calls  func()
}

// call asks for JSON.
func (a *api) call(ctx context.Context, path string, query url.Values, header http.Header, into any) error {
	return answer.Repeat(ctx, a.pause, func() error {
		resp, err := a.get(ctx, path, query, header)
		if err != nil {
			return err
		}
		defer func() { answer.Drain(resp.Body); _ = resp.Body.Close() }()
		return answer.Decode(resp.Body, limits, into)
	})
}

func (a *api) get(ctx context.Context, path string, query url.Values, header http.Header) (*http.Response, error) {
	address := a.base + "/drive/v3/" + path + "?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	a.calls()
	resp, err := answer.Do(a.client, req)
	switch {
	case err != nil && endsSync(err):
		return nil, err // the error names who failed: without an access token Google Drive was never asked
	case err != nil:
		return nil, fmt.Errorf("ask Google Drive for %s: %w", strings.SplitN(path, "/", 2)[0], err)
	case resp.StatusCode/100 != 2:
		defer func() { answer.Drain(resp.Body); _ = resp.Body.Close() }()
		return nil, answer.ReadRefusal(resp, service)
	}
	return resp, nil
}

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// item asks for one item ("Method: files.get").
func (a *api) item(ctx context.Context, id, key string) (f item, err error) {
	query := values("fields", itemFields, "supportsAllDrives", "true")
	err = a.call(ctx, "files/"+url.PathEscape(id), query, resourceKey(id, key), &f)
	f.clip()
	if err == nil && !validID(f.ID) {
		return f, fmt.Errorf("ask for an item: it has the id %.120q", f.ID)
	}
	return f, err
}

// resourceKey is the header that opens an item that is shared by its link ("Access link-shared files using resource keys").
func resourceKey(id, key string) http.Header {
	if !validID(key) {
		return nil
	}
	return http.Header{"X-Goog-Drive-Resource-Keys": {id + "/" + key}}
}

// page is one page of a listing, or of the changes; Start is the token from which the changes continue.
type page struct {
	Next, Start   string
	Incomplete    bool
	Files, Drives []item
	Changes       []change
}

// change is one change ("REST Resource: changes").
type change struct {
	Type    string `json:"changeType"`
	FileID  string `json:"fileId"`
	DriveID string `json:"driveId"`
	Removed bool   `json:"removed"`
	File    *item  `json:"file"`
}

func (c change) identity() string { return validOr(c.FileID) }

func (c *change) clip() {
	if c.File != nil {
		c.File.clip()
	}
}

// Stream decodes a page element by element.
func (p *page) Stream(dec *answer.Decoder) error {
	*p = page{}
	return answer.Object(dec, func(name string) error {
		switch name {
		case "nextPageToken":
			return dec.Decode(&p.Next)
		case "newStartPageToken", "startPageToken":
			return dec.Decode(&p.Start)
		case "incompleteSearch":
			return dec.Decode(&p.Incomplete)
		case "files":
			return elements(dec, &p.Files)
		case "drives":
			return elements(dec, &p.Drives)
		case "changes":
			return elements(dec, &p.Changes)
		}
		return answer.Skip(dec)
	})
}

// elements decodes an array. Each element is clipped before the next is read.
func elements[T any, P interface {
	*T
	clip()
}](dec *answer.Decoder, into *[]T,
) error {
	return answer.Elements(dec, into, func(one *T) error {
		err := dec.Decode(one)
		P(one).clip()
		return err
	})
}

// list lists one page of the results of a query in a drive, or among the user's own items ("Method: files.list").
func (a *api) list(ctx context.Context, drive, q, token string, size int) (p page, err error) {
	query := values("q", q, "pageToken", token, "pageSize", strconv.Itoa(size), "spaces", "drive",
		"fields", "nextPageToken,incompleteSearch,files("+itemFields+")", "supportsAllDrives", "true")
	if drive == "" {
		query.Set("corpora", "user")
	} else {
		query.Set("corpora", "drive")
		query.Set("driveId", drive)
		query.Set("includeItemsFromAllDrives", "true")
	}
	return a.getPage(ctx, "files", query)
}

// getPage asks for one page.
func (a *api) getPage(ctx context.Context, of string, query url.Values) (p page, err error) {
	token := query.Get("pageToken")
	err = a.call(ctx, of, query, nil, &p)
	switch {
	case err == nil && p.Incomplete:
		err = errors.New("not everything was searched; it is tried again")
	case err == nil && p.Next != "" && p.Next == token:
		err = errors.New("the answer leads to itself")
	case err == nil && max(len(p.Next), len(p.Start)) > maxTokenBytes:
		err = fmt.Errorf("a page token has more than %d bytes", maxTokenBytes)
	case token != "" && isStale(err):
		err = fmt.Errorf("%w (%w)", errStale, err)
	}
	if err != nil {
		return p, fmt.Errorf("list %s: %w", of, err)
	}
	return p, nil
}

// startToken returns the token from which later changes are listed ("Method: changes.getStartPageToken").
func (a *api) startToken(ctx context.Context, drive string) (string, error) {
	p, err := a.getPage(ctx, "changes/startPageToken", values("driveId", drive, "supportsAllDrives", "true"))
	if err == nil && p.Start == "" {
		err = errors.New("list changes: the answer does not say where they begin")
	}
	return p.Start, err
}

// changes lists changes ("Method: changes.list"). Changes outside My Drive are included: they report items that have left it.
func (a *api) changes(ctx context.Context, drive, token string, size int) (p page, err error) {
	query := values("pageToken", token, "pageSize", strconv.Itoa(size), "spaces", "drive", "includeRemoved", "true",
		"restrictToMyDrive", "false", "supportsAllDrives", "true", "driveId", drive,
		"fields", "nextPageToken,newStartPageToken,changes(changeType,fileId,driveId,removed,file("+itemFields+"))")
	if drive != "" {
		query.Set("includeItemsFromAllDrives", "true")
	}
	p, err = a.getPage(ctx, "changes", query)
	if err == nil && p.Next == "" && p.Start == "" {
		err = errors.New("list changes: the answer does not say how to go on")
	}
	return p, err
}

// drives lists the shared drives that the user is a member of ("Method: drives.list").
func (a *api) drives(ctx context.Context) (ids []string, err error) {
	for token := ""; ; {
		p, err := a.getPage(ctx, "drives", values("pageSize", "100", "pageToken", token, "fields", "nextPageToken,drives(id)"))
		if err != nil {
			return nil, err
		}
		for _, d := range p.Drives {
			if validID(d.ID) {
				ids = append(ids, d.ID)
			}
		}
		if len(ids) > maxDrives {
			return nil, worker.Permanent(fmt.Errorf(
				"include_shared_drives: the account is a member of more than %d shared drives; make a connector of its own for each", maxDrives))
		}
		if token = p.Next; token == "" {
			return ids, nil
		}
	}
}
