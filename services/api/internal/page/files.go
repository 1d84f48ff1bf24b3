package page

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// filesKey is of a request's body without the bound of the page's forms: an upload has bounds of its own.
type filesKey struct{}

// shownFiles is how many files a page shows.
const shownFiles = 100

// filesView are the files that were uploaded to a source.
type filesView struct {
	Files []fileView
	More  bool
}

type fileView struct {
	Name       string    `json:"name"`
	Bytes      int64     `json:"bytes"`
	SHA256     string    `json:"sha256"`
	UploadedAt time.Time `json:"uploaded_at"`
	UploadedBy string    `json:"uploaded_by"`
	Document   string    `json:"document"`
	Error      *string   `json:"error"`
	At         *moment   `json:"-"`
}

// Size is how large it is, for people.
func (f fileView) Size() string {
	switch {
	case f.Bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(f.Bytes)/(1<<20))
	case f.Bytes >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(f.Bytes)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", f.Bytes)
}

// Became is what has come of it.
func (f fileView) Became() string {
	switch f.Document {
	case "stored":
		return "is found by a search"
	case "failed":
		return "could not be read"
	}
	return "waits for a sync"
}

// files are those of a source whose files are uploaded; nil for others.
func (q *request) files(c connector) (*filesView, error) {
	var config map[string]json.RawMessage // by their names as they are written
	if c.Type != "file" || json.Unmarshal(c.Config, &config) != nil || string(config["url"]) != `"upload:"` {
		return nil, nil
	}
	var page struct {
		Files         []fileView `json:"files"`
		NextPageToken *string    `json:"next_page_token"`
	}
	if err := q.get(fmt.Sprintf("/connectors/%d/files", c.ID), url.Values{"page_size": {fmt.Sprint(shownFiles)}}, &page); err != nil {
		return nil, err
	}
	now := time.Now()
	for i := range page.Files {
		page.Files[i].At = q.zone.in(&page.Files[i].UploadedAt, c.TimeZone, now)
	}
	return &filesView{page.Files, page.NextPageToken != nil}, nil
}

// upload passes the files of a form on, as they come.
func (p *pages) upload(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	body, _ := q.Context().Value(filesKey{}).(io.Reader)
	asked := Operation{Method: http.MethodPost, Path: fmt.Sprintf("/connectors/%d/files", id), Form: body, FormType: q.Request.Header.Get("Content-Type")}
	if _, err := q.service.Ask(q.Context(), asked, nil); err != nil {
		return err
	}
	http.Redirect(q.ResponseWriter, q.Request, fmt.Sprintf("/sources/%d?said=upload", id), http.StatusSeeOther)
	return nil
}

func (p *pages) deleteFile(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	asked := Operation{Method: http.MethodDelete, Path: fmt.Sprintf("/connectors/%d/files/%s", id, url.PathEscape(q.PostFormValue("name"))), IfMatch: strconv.Quote(q.PostFormValue("version"))}
	if _, err := q.service.Ask(q.Context(), asked, nil); err != nil {
		return err
	}
	q.back(fmt.Sprintf("/sources/%d", id), "delete")
	return nil
}
