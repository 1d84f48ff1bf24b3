package graph

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Item is a driveItem ("driveItem resource type"). A facet that is nil is absent.
type Item struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Size        int64  `json:"size"`
	ETag        string `json:"eTag"`
	CTag        string `json:"cTag"`
	WebURL      string `json:"webUrl"`
	DownloadURL string `json:"@microsoft.graph.downloadUrl"`
	Parent      struct {
		DriveID string `json:"driveId"`
		ID      string `json:"id"`
	} `json:"parentReference"`
	File *struct {
		MediaType string `json:"mimeType"`
		Hashes    struct {
			QuickXor string `json:"quickXorHash"`
			SHA1     string `json:"sha1Hash"`
			SHA256   string `json:"sha256Hash"`
		} `json:"hashes"`
	} `json:"file"`
	Folder *struct {
		ChildCount *int `json:"childCount"`
	} `json:"folder"`
	Package *struct {
		Type string `json:"type"`
	} `json:"package"`
	Malware    *struct{} `json:"malware"`
	RemoteItem *struct{} `json:"remoteItem"`
	Root       *struct{} `json:"root"`
	Deleted    *struct{} `json:"deleted"`
}

// IsFolder tells whether the item can hold other items. A package (a notebook) looks like a folder and is none.
func (i Item) IsFolder() bool { return i.Folder != nil && i.Package == nil && i.RemoteItem == nil }

// MediaType is the media type of a file, or empty.
func (i Item) MediaType() string {
	if i.File == nil {
		return ""
	}
	return i.File.MediaType
}

// Page is one answer of a collection.
type Page[T any] struct {
	Value []T    `json:"value"`
	Next  string `json:"@odata.nextLink"`
	Delta string `json:"@odata.deltaLink"`
}

// Item asks for one item of a drive.
func (c *Client) Item(ctx context.Context, drive, id string) (Item, error) {
	var item Item
	err := c.Get(ctx, c.URL("/drives/"+Segment(drive)+"/items/"+Segment(id), nil), nil, &item)
	return item, err
}

// ItemDelta is the first link of the delta of a folder; "latest" as token skips the items that exist now.
func (c *Client) ItemDelta(drive, folder string, pageSize int, token string) string {
	query := url.Values{}
	if token != "" {
		query.Set("token", token)
	}
	return c.in(drive, folder, "/delta", pageSize, query)
}

// in is the first link of what is asked of a folder.
func (c *Client) in(drive, folder, what string, pageSize int, query url.Values) string {
	if pageSize > 0 {
		query.Set("$top", strconv.Itoa(pageSize))
	}
	return c.URL("/drives/"+Segment(drive)+"/items/"+Segment(folder)+what, query)
}

// deltaHeader leaves out the folders above a changed item, so that a folder in an answer has changed itself. removedAsDeleted
// reports items as deleted whose permission was removed ("driveItem: delta").
var deltaHeader = http.Header{
	"Deltaexcludeparent": {"true"},
	"Prefer":             {"deltashowremovedasdeleted"},
}

// Items asks for a page of drive items, of a delta or of a folder's children.
func (c *Client) Items(ctx context.Context, link string) (Page[Item], error) {
	var page Page[Item]
	err := c.Get(ctx, link, deltaHeader, &page)
	return page, err
}

// Children is the first link of a folder's listing.
func (c *Client) Children(drive, folder string, pageSize int) string {
	return c.in(drive, folder, "/children", pageSize, url.Values{})
}
