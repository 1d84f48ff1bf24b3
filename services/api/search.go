package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/freshness"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/line"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// searchTimeout bounds a search with all its statements, and its wait for others' searches.
	searchTimeout = 8 * time.Second
	// mostCompared is how many chunks a search compares, of how many sources, where no index is kept: 2 KB are read for each chunk.
	mostCompared, mostSources = 50_000, 10_000
	// comparing is how long they are compared: then the best so far are the answer.
	comparing = 3 * time.Second
	// mostWords is how many different words a search has: each is looked for in each chunk that is compared.
	mostWords = 32
	// excerpt is how many characters of a chunk are shown, and mostTitle how many bytes of a title.
	excerpt, mostTitle = 1000, 600
	// namedSources is how many sources that were never synced are named.
	namedSources = 10
)

func (a *API) searchRoutes() {
	register(a, identity.Search, http.MethodGet, "/search", "Search what is stored of the sources that you see, the best hits first", http.StatusOK, a.search)
}

// Search is what is searched for.
type Search struct {
	Q        string  `query:"q" required:"true" minLength:"1" maxLength:"500" doc:"Words, up to 32 different ones."`
	Source   []int64 `query:"source,explode" maxItems:"100" nullable:"false" doc:"Numbers of connectors whose documents may be found: source=1&source=2. Those that you do not see have none. Left out: all that you see."`
	Scope    string  `query:"scope" enum:"user,group,org" doc:"Only documents of connectors of this scope."`
	PageSize int64   `query:"page_size" minimum:"1" maximum:"100" default:"20" format:"int32" doc:"How many hits at most. There is no next page: scores compare the hits of one search with each other."`
}

// Resolve refuses an address that cannot be read whole, such as an address with more than 10,000 values, or with a part that would not count: what that part names would be left out, and more would be searched than was asked for.
func (s *Search) Resolve(ctx huma.Context) []error {
	at := ctx.URL()
	given, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		return []error{&huma.ErrorDetail{Location: "query", Message: "must be readable, with at most 100 values of source"}}
	}
	if slices.Contains(given["source"], "") {
		return []error{&huma.ErrorDetail{Location: "query.source", Message: "has an empty value: must be the number of a connector, or left out to search all that you see"}}
	}
	for _, name := range []string{"q", "scope", "page_size"} {
		if n := len(given[name]); n > 1 {
			return []error{&huma.ErrorDetail{Location: "query." + name, Message: fmt.Sprintf("is given %d times: must be given once", n)}}
		}
	}
	return nil
}

// check says what is wrong with a question; the document says the rest.
func (s *Search) check() (sources []int32, err error) {
	words := embed.Words(s.Q)
	switch {
	case !utf8.ValidString(s.Q):
		return nil, problem.Invalid("query.q", "must be UTF-8")
	case strings.ContainsRune(s.Q, 0):
		return nil, problem.Invalid("query.q", "must have no NUL character")
	case len(words) == 0:
		return nil, problem.Invalid("query.q", "must have a letter or a digit")
	case len(words) > mostWords:
		return nil, problem.Invalid("query.q", fmt.Sprintf("has %d different words: must have at most %d", len(words), mostWords))
	}
	for i, id := range s.Source {
		if id < 1 || id > math.MaxInt32 {
			return nil, problem.Invalid(fmt.Sprintf("query.source[%d]", i), "must be 1 to 2147483647")
		}
		sources = append(sources, int32(id))
	}
	return sources, nil
}

// SearchHit is a part of a document.
type SearchHit struct {
	ConnectorID int32               `json:"connector_id"`
	Connector   string              `json:"connector" doc:"What its source is called."`
	SourceID    string              `json:"source_id" doc:"The document's name in the source, such as its path."`
	Title       string              `json:"title"`
	URL         string              `json:"url" doc:"Where the document is, as its source says: of any scheme. May be empty."`
	HeadingPath []string            `json:"heading_path" doc:"The headings that the part stands under."`
	Text        string              `json:"text" doc:"The part, as plain text, or 1,000 characters of it."`
	CutBefore   bool                `json:"cut_before" doc:"The part has more before the text."`
	CutAfter    bool                `json:"cut_after" doc:"The part has more behind the text."`
	Marks       []search.Mark       `json:"marks" doc:"What to highlight of the text: from which character to before which, counted in Unicode code points from 0."`
	Score       float32             `json:"score" doc:"How well it matches, up to 1; of one search alone."`
	StoredAt    time.Time           `json:"stored_at" doc:"When the document was stored."`
	Freshness   freshness.Freshness `json:"freshness" doc:"Of its source: how old what is stored of it is, and whether that is as fresh as it should be."`
}

// NamedSource is a connector and what it is called.
type NamedSource struct {
	ConnectorID int32  `json:"connector_id"`
	Name        string `json:"name"`
}

// Searched is what a search has looked at.
type Searched struct {
	Sources          int32         `json:"sources" doc:"How many sources, up to 10,000."`
	NeverSynced      int32         `json:"never_synced" doc:"How many of these have never completed a sync, so that little or nothing of them is found."`
	NeverSyncedFirst []NamedSource `json:"never_synced_first" doc:"Up to 10 of these."`
	Whole            bool          `json:"whole" doc:"Whether everything was compared, or, where an index is kept, all that it has by now. If false: name fewer sources, or have the operator keep an index."`
}

// SearchAnswer is what a search has found.
type SearchAnswer struct {
	Body struct {
		Hits     []SearchHit `json:"hits" doc:"The best first. What does not match is left out."`
		Searched Searched    `json:"searched"`
	}
}

func (a *API) search(ctx context.Context, in *Search) (*SearchAnswer, error) {
	asked, err := in.check()
	if err != nil {
		return nil, err
	}
	answer, err := deadline.Get(ctx, "api.search", searchTimeout, func(ctx context.Context) (*SearchAnswer, error) { return a.searchNow(ctx, in, asked) })
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, search.ErrIndex):
		return nil, problem.IndexAway(err)
	case postgres.Locked(err): // it holds no row: somebody changes the tables
		return nil, problem.Unavailable(err)
	case errors.As(err, &pg) && pg.Code == "57014": // its statement took too long
		return nil, problem.SlowSearch(err)
	}
	return answer, err
}

func (a *API) searchNow(ctx context.Context, in *Search, asked []int32) (*SearchAnswer, error) {
	done, err := a.searches.begin(ctx, requestOf(ctx).UserID)
	if err != nil {
		return nil, err
	}
	defer done()
	out := &SearchAnswer{}
	within, err := a.searched(ctx, in, asked, &out.Body.Searched)
	if err != nil {
		return nil, err
	}
	ask := func(ctx context.Context, work func(context.Context, search.Querier) error) error {
		return a.transact(ctx, alongKeys, func(ctx context.Context, tx pgx.Tx) error { return work(ctx, tx) })
	}
	sight := search.OfViewer(ask, pointScopes(requestOf(ctx).Who, in.Scope), within, mostCompared, comparing)
	found, err := a.searcher.Find(ctx, sight, search.Question{Text: in.Q, Limit: int(in.PageSize), Sources: asked, Scope: in.Scope})
	if err != nil {
		return nil, err
	}
	out.Body.Searched.Whole = out.Body.Searched.Whole && !found.IsPartial
	out.Body.Hits = make([]SearchHit, len(found.Hits))
	for i, h := range found.Hits {
		out.Body.Hits[i] = viewHit(h, in.Q)
	}
	return out, nil
}

// searched are the sources that a search is over, and says how many there are. Where no index is kept no others are looked at.
func (a *API) searched(ctx context.Context, in *Search, asked []int32, say *Searched) (within []int32, err error) {
	p := dbgen.SearchedSourcesParams{Through: math.MaxInt32, Ids: asked, Scope: given(in.Scope), Most: mostSources + 1}
	var found []dbgen.SearchedSourcesRow
	further := false
	err = a.in(ctx, func(ctx context.Context, q *dbgen.Queries) error {
		if in.Scope != "" && asked == nil && requestOf(ctx).Role == identity.Superadmin { // there may be few of the scope among all that they see
			through, err := q.ConnectorsThrough(ctx, dbgen.ConnectorsThroughParams{Look: lookahead})
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if further = err == nil; further {
				p.Through = through
			}
		}
		found, err = q.SearchedSources(ctx, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	found, more := cut(found, mostSources)
	say.Sources, say.NeverSyncedFirst, say.Whole = int32(len(found)), []NamedSource{}, a.searcher.HasIndex() || !more && !further
	within = make([]int32, len(found))
	for i, source := range found {
		within[i] = source.ID
		if source.LastSyncAt == nil {
			if say.NeverSynced++; say.NeverSynced <= namedSources {
				say.NeverSyncedFirst = append(say.NeverSyncedFirst, NamedSource{source.ID, source.Name})
			}
		}
	}
	return within, nil
}

// pointScopes are the scopes of the index's points that somebody may find; nil: all. Postgres has the word on each hit.
func pointScopes(who identity.Who, scope string) []string {
	if who.Role.AtLeast(identity.Superadmin) {
		return map[string][]string{"org": {"org"}}[scope]
	}
	all := map[string][]string{"user": {fmt.Sprint("user_", who.UserID)}, "group": {}, "org": {"org"}}
	for _, group := range who.Groups {
		all["group"] = append(all["group"], "group_"+group)
	}
	if scope != "" {
		return all[scope]
	}
	return slices.Concat(all["user"], all["group"], all["org"])
}

func viewHit(h search.Hit, searched string) SearchHit {
	shownPart := search.ExcerptOf(h.Text, searched, excerpt)
	v := SearchHit{
		ConnectorID: h.ConnectorID, Connector: h.Connector, SourceID: shown(h.SourceID), Title: line.Clip(secret.Text(h.Title), mostTitle), URL: shown(h.URL),
		HeadingPath: make([]string, min(len(h.HeadingPath), 10)), Text: shownPart.Text, CutBefore: shownPart.Before, CutAfter: shownPart.After, Marks: shownPart.Marks,
		Score: h.Score, StoredAt: h.Of.StoredAt.UTC(), Freshness: freshness.Of(freshness.Connector{
			FreshWithinMinutes: h.Of.FreshWithinMinutes, LastSyncAt: h.Of.LastSyncAt, SyncedVersion: h.Of.SyncedVersion, ConfigVersion: h.Of.ConfigVersion,
		}, h.Of.SeenAt),
	}
	for i := range v.HeadingPath {
		v.HeadingPath[i] = line.Clip(secret.Text(h.HeadingPath[i]), mostTitle)
	}
	return v
}
