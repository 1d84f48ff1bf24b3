package api

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// lookdown is in how many documents one page is looked for. Each connector that has any counts for 50 of them.
	lookdown = 50_000
	// firstConnectors are looked at for a page of the documents of all, and moreConnectors where these have too few.
	firstConnectors = 100
	moreConnectors  = 4900
)

// Document is what is shown of one.
type Document struct {
	SourceID  string    `json:"source_id" doc:"Its name in the source."`
	AfterID   *string   `json:"after_id" doc:"What after_id of a list takes, where its name is not shown as it is and after cannot be given; null elsewhere. Lists of all connectors have none."`
	Title     string    `json:"title"`
	URL       string    `json:"url"`
	MediaType string    `json:"media_type"`
	Status    string    `json:"status" enum:"stored,failed,deleted,partial"`
	Error     *string   `json:"error"`
	Chunks    int32     `json:"chunks"`
	UpdatedAt time.Time `json:"updated_at"`
}

func viewDocument(d dbgen.DocumentsOfRow) Document {
	return Document{
		SourceID: shown(d.SourceID), Title: secret.Text(d.Title), URL: shown(d.Url), MediaType: d.MediaType, Status: d.Status,
		Error: shownText(given(d.Error)), Chunks: d.ChunkCount, UpdatedAt: d.UpdatedAt.UTC(),
	}
}

// DocumentFilter is what may be asked of a list of documents.
type DocumentFilter struct {
	Status string `query:"status" enum:"stored,failed,deleted,partial"`
	Prefix string `query:"prefix" maxLength:"2048" doc:"Only those whose names in the source begin with this."`
}

// isText says that a value of the query can be a name in a source.
func isText(field, value string) error {
	if strings.ContainsRune(value, 0) || !utf8.ValidString(value) {
		return problem.Invalid("query."+field, "must be text without NUL characters")
	}
	return nil
}

// areTexts says so of values of the query, by their names.
func areTexts(values map[string]string) error {
	for _, field := range slices.Sorted(maps.Keys(values)) {
		if err := isText(field, values[field]); err != nil {
			return err
		}
	}
	return nil
}

// DocumentList is how documents are asked for.
type DocumentList struct {
	ByID
	DocumentFilter
	After   string `query:"after" maxLength:"4096" doc:"Only those whose names in the source come after this. A page_token goes before it."`
	AfterID string `query:"after_id" maxLength:"18" pattern:"^[0-9]+$" doc:"The same, by the after_id of a document."`
	LongPaging
}

// DocumentPage is one page of documents.
type DocumentPage struct {
	Body struct {
		Documents     []Document `json:"documents"`
		NextPageToken *string    `json:"next_page_token" doc:"Null where there are no more. A page may have fewer documents than asked for, and a next one."`
	}
}

// documentPlace is behind which document a page begins.
type documentPlace struct {
	ConnectorID int32  `json:"c"`
	SourceID    string `json:"s"`
}

// documentsOf finds documents of some connectors, behind one of the first, and where to go on, if there may be more.
func documentsOf(ctx context.Context, q *dbgen.Queries, filter DocumentFilter, connectors []int32, after string, most int32, look int32) (found []dbgen.DocumentsOfRow, next *documentPlace, err error) {
	found, err = q.DocumentsOf(ctx, dbgen.DocumentsOfParams{
		Connectors: connectors, After: after, Status: given(filter.Status), Prefix: given(filter.Prefix), Page: most, Bytes: mostBytes, Look: look,
	})
	if last := len(found) - 1; last >= 0 && found[last].IsEnd {
		next, found = &documentPlace{found[last].ConnectorID, found[last].SourceID}, found[:last]
	}
	return found, next, err
}

func (a *API) listDocuments(ctx context.Context, in *DocumentList) (*DocumentPage, error) {
	after, out := in.After, &DocumentPage{}
	if err := areTexts(map[string]string{"after": in.After, "prefix": in.Prefix}); err != nil {
		return nil, err
	}
	next, err := a.place(ctx, in.PageToken, []any{in.number(), in.DocumentFilter}, &after)
	if err != nil {
		return nil, err
	}
	var found []dbgen.DocumentsOfRow
	var numbers map[string]int64
	err = a.byKey(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if err := isSeen(ctx, q, in.number()); err != nil {
			return err
		}
		if in.AfterID != "" && in.PageToken == "" {
			if after, err = nameAfter(ctx, q, in.number(), in.AfterID); err != nil {
				return err
			}
		}
		var behind *documentPlace
		found, behind, err = documentsOf(ctx, q, in.DocumentFilter, []int32{in.number()}, after, in.most(), lookdown)
		if behind != nil {
			out.Body.NextPageToken = next(behind.SourceID)
		}
		if err != nil {
			return err
		}
		numbers, err = hiddenNumbers(ctx, q, in.number(), found)
		return err
	})
	out.Body.Documents = make([]Document, len(found))
	for i, d := range found { // masked once the connection is given back
		out.Body.Documents[i] = viewDocument(d)
		if number, is := numbers[d.SourceID]; is {
			out.Body.Documents[i].AfterID = new(strconv.FormatInt(number, 10))
		}
	}
	return out, err
}

// nameAfter is the name of the document that a number stands for.
func nameAfter(ctx context.Context, q *dbgen.Queries, connector int32, afterID string) (string, error) {
	id, err := strconv.ParseInt(afterID, 10, 64)
	if err != nil {
		return "", problem.Invalid("query.after_id", "must be the after_id of a document")
	}
	name, err := q.DocumentName(ctx, dbgen.DocumentNameParams{ConnectorID: connector, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", problem.Invalid("query.after_id", "is no document of the connector any more; begin without it")
	}
	return name, err
}

// hiddenNumbers are the numbers of those documents of a connector whose names are not shown as they are.
func hiddenNumbers(ctx context.Context, q *dbgen.Queries, connector int32, found []dbgen.DocumentsOfRow) (map[string]int64, error) {
	p := dbgen.DocumentNumbersParams{ConnectorID: connector}
	for _, d := range found {
		if shown(d.SourceID) != d.SourceID {
			p.Names = append(p.Names, d.SourceID)
		}
	}
	if len(p.Names) == 0 {
		return nil, nil
	}
	rows, err := q.DocumentNumbers(ctx, p)
	numbers := make(map[string]int64, len(rows))
	for _, r := range rows {
		numbers[r.SourceID] = r.ID
	}
	return numbers, err
}

// FoundDocument is a document, and whose it is.
type FoundDocument struct {
	ConnectorID   int32  `json:"connector_id"`
	ConnectorName string `json:"connector_name"`
	Document
}

// DocumentSearch is how documents of all connectors are asked for.
type DocumentSearch struct {
	ConnectorID int64  `query:"connector_id" minimum:"1" maximum:"2147483647" format:"int32"`
	Type        string `query:"type" maxLength:"63" doc:"Of connectors of this type."`
	DocumentFilter
	LongPaging
}

// FoundDocuments is one page of them.
type FoundDocuments struct {
	Body struct {
		Documents     []FoundDocument `json:"documents"`
		NextPageToken *string         `json:"next_page_token" doc:"Null where there are no more. A page may have fewer documents than asked for, and a next one."`
	}
}

func (a *API) findDocuments(ctx context.Context, in *DocumentSearch) (*FoundDocuments, error) {
	at, out := documentPlace{ConnectorID: 1}, &FoundDocuments{}
	if err := areTexts(map[string]string{"prefix": in.Prefix, "type": in.Type}); err != nil {
		return nil, err
	}
	next, err := a.place(ctx, in.PageToken, []any{"documents", in.ConnectorID, in.Type, in.DocumentFilter}, &at)
	if err != nil {
		return nil, err
	}
	var found []dbgen.DocumentsOfRow
	var called map[int32]string
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		var behind *documentPlace
		if found, behind, err = pageOfDocuments(ctx, q, in, at); err != nil {
			return err
		}
		if behind != nil {
			out.Body.NextPageToken = next(*behind)
		}
		ids := make([]int32, len(found))
		for i, d := range found {
			ids[i] = d.ConnectorID
		}
		called, err = connectorNames(ctx, q, ids)
		return err
	})
	out.Body.Documents = make([]FoundDocument, len(found))
	for i, d := range found {
		out.Body.Documents[i] = FoundDocument{d.ConnectorID, called[d.ConnectorID], viewDocument(d)}
	}
	return out, err
}

// pageOfDocuments finds documents behind a place, and where to go on: it looks at a bounded number of connectors that the viewer sees, and of their documents.
func pageOfDocuments(ctx context.Context, q *dbgen.Queries, in *DocumentSearch, at documentPlace) (found []dbgen.DocumentsOfRow, next *documentPlace, err error) {
	p := dbgen.ListConnectorsParams{AfterID: at.ConnectorID - 1, Type: given(in.Type), Look: lookahead}
	pages := []int32{firstConnectors, moreConnectors}
	if in.ConnectorID != 0 {
		p.AfterID, pages = max(p.AfterID, int32(in.ConnectorID)-1), []int32{1}
	}
	for _, p.Page = range pages {
		places, end, err := listed(ctx, q, p)
		if err != nil {
			return nil, nil, err
		}
		var ids []int32
		for _, c := range places {
			if in.ConnectorID == 0 || c.ID == int32(in.ConnectorID) {
				ids = append(ids, c.ID)
			}
		}
		if len(ids) > 0 {
			after := ""
			if ids[0] == at.ConnectorID {
				after = at.SourceID
			}
			some, next, err := documentsOf(ctx, q, in.DocumentFilter, ids, after, in.most()-int32(len(found)), lookdown/2)
			if found = append(found, some...); err != nil || next != nil {
				return found, next, err
			}
			p.AfterID = ids[len(ids)-1]
		}
		switch {
		case in.ConnectorID != 0:
			return found, nil, nil
		case end != nil:
			return found, &documentPlace{ConnectorID: end.ID + 1}, nil
		case len(ids) < int(p.Page): // there are no more
			return found, nil, nil
		}
	}
	return found, &documentPlace{ConnectorID: p.AfterID + 1}, nil
}
