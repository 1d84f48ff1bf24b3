// Package api is the management plane: REST for users, and for the programs around the system. Everything it reads and writes of
// connectors and runs goes through the views of schema api, which show and change what whom it serves may see and change; everything
// that moves goes through the moves. It publishes nothing; of NATS's streams it changes the dead letters alone, which it removes.
//
//	request → id, body's bound, deadline → token, ours or an issuer's, or a proxy's headers → rate → scope and role → one transaction that says whom it serves → answer
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/search"
	"github.com/echomind/sync/internal/search/embed"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
	"github.com/echomind/sync/services/api/internal/signin"
	"github.com/echomind/sync/services/api/internal/webhooks"
	"github.com/echomind/sync/services/internal/uploads"
)

const (
	// queryTimeout bounds a request's transaction.
	queryTimeout = 6 * time.Second
	// statementTimeout bounds each of its statements, lockTimeout each wait for a row.
	statementTimeout = 5 * time.Second
	lockTimeout      = 2 * time.Second
	// chainTurnTimeout bounds the wait of a change of chains for those of other replicas and programs, chainRowTimeout its waits for rows then.
	chainTurnTimeout = 4 * time.Second
	chainRowTimeout  = 500 * time.Millisecond
	// maxBody is a configuration of 64 KiB with every character escaped, and the rest.
	maxBody = 512 << 10
	base    = "/api/v1"
)

// API is the service.
type API struct {
	config    Config
	pool      *pgxpool.Pool
	ring      *secret.Ring
	places    places
	limiter   *limiter
	strangers strangers
	badges    *badgesFound
	chains    *share
	queues    *share // what each on a page waits for is counted
	proxies   proxies
	streams   *streams
	counts    counts
	feed      *feed
	watchers  *watchers
	watched   *watchedRuns
	searcher  *search.Searcher
	searches  *share
	bulk      *bulk
	bucket    *uploads.Bucket // nil = no place for uploads
	uploading *share
	ways      *signin.Ways
	issuer    *signin.Page
	webhooks  *webhooks.Service
	// crossOrigin tells requests that another site has a browser make.
	crossOrigin *http.CrossOriginProtection
	metrics     *metrics
	log         *slog.Logger
	huma        huma.API
	mux         *http.ServeMux
}

// Run serves until ctx ends; it returns nil on a clean stop. Postgres may be away, at the start too: then it answers 503.
func Run(ctx context.Context, cfg Config, process connect.Process) error {
	return RunAnd(ctx, cfg, process, nil)
}

// RunAnd is Run; started, if not nil, is told the address that is listened on.
func RunAnd(ctx context.Context, cfg Config, process connect.Process, started func(string)) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, cfg.DatabaseURL, "echomind-api", cfg.DatabaseMaxConns, postgres.As(cfg.DatabaseRole))
	if err != nil {
		return err
	}
	defer pool.Close()
	defer connect.MeasurePool(process.Metrics, "api", pool)()
	process.Ready.Add("api.postgres", func(ctx context.Context) error { return db.Check(ctx, pool) })
	a, err := New(cfg, pool, process)
	if err != nil {
		return err
	}
	defer a.streams.close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.serve(ctx, started) })
	group.Go(func() error { a.keepWorking(ctx, a.workBatch, a.bulk.woken); return nil })
	group.Go(func() error { a.keepWorking(ctx, a.workLetters, a.bulk.letters); return nil })
	group.Go(func() error { return a.keepUploads(ctx) })
	group.Go(func() error { a.webhooks.Run(ctx); return nil })
	err = group.Wait()
	if a.bucket != nil {
		err = errors.Join(err, a.bucket.Close())
	}
	return err
}

// New makes the service on an open pool, whose login is a member of echomind_api.
func New(cfg Config, pool *pgxpool.Pool, process connect.Process) (*API, error) {
	ring, err := secret.Load(cfg.SecretsKeyFile, cfg.SecretsKey)
	if err != nil {
		return nil, err
	}
	trusted, err := trustedProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	ways, err := signin.New(cfg.SignIn, process.Log.With("service", "api"))
	if err != nil {
		return nil, err
	}
	told, err := cfg.toldAddresses()
	if err != nil {
		return nil, err
	}
	a := &API{
		webhooks: webhooks.New(webhooks.Config{Allow: told, MostFailing: time.Duration(cfg.WebhookFailingHours) * time.Hour, PageURL: strings.TrimSuffix(cfg.SignIn.PageURL, "/")},
			pool, ring, process.Metrics, process.Log.With("service", "api")),
		ways: ways, issuer: signin.NewPage(ways, ring, process.Log.With("service", "api")), crossOrigin: http.NewCrossOriginProtection(), config: cfg, pool: pool, ring: ring, limiter: newLimiter(cfg.Rate, cfg.Burst), strangers: newStrangers(cfg.Rate, cfg.Burst), badges: newBadgesFound(cfg.Rate, cfg.Burst), proxies: trusted,
		chains: newShare(1, problem.ManyChains), queues: newShare(2, problem.ManyQueues), searcher: search.New(&embed.Hash{}, cfg.Qdrant), searches: newShare(int(max(1, cfg.DatabaseMaxConns/2)), problem.ManySearches),
		streams: &streams{config: cfg.Common}, metrics: newMetrics(process.Metrics), log: process.Log.With("service", "api"), mux: http.NewServeMux(),
	}
	a.bulk = newBulk()
	if a.uploading = newShare(cfg.UploadsAtOnce, problem.ManyUploads); cfg.Uploads.URL != "" {
		if a.bucket, err = uploads.Open(context.Background(), cfg.Uploads); err != nil {
			return nil, err
		}
	}
	a.feed, a.watchers = newFeed(a.streams), newWatchers(cfg.MaxWatchers, a.metrics.watchers)
	a.watched = newWatchedRuns(a)
	ourWords()
	a.huma = humago.New(a.mux, document())
	a.huma.UseMiddleware(a.signIn)
	a.routes()
	a.pageRoutes()
	return a, nil
}

func document() huma.Config {
	cfg := huma.DefaultConfig("EchoMind Sync", "1")
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = base+"/openapi", "", ""
	cfg.CreateHooks = nil
	cfg.RejectUnknownQueryParameters = true
	cfg.Info.Description = "Sources of knowledge that are kept in sync, their runs, and who did what. Lists come in pages: send next_page_token as page_token. " +
		"What you may not see is not found. Every change may carry a note for the audit, in the header Audit-Note."
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "A token that `echomind tokens create` or POST /api/v1/tokens has made, or a JWT of the issuer that this API believes (OIDC_ISSUER)."},
	}
	return cfg
}

// ourWords has huma answer in our words. They are the same for every API of the process.
var ourWords = sync.OnceFunc(func() {
	huma.NewError = problem.FromHuma
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		p := *problem.Of(problem.FromHuma(status, message, errs...))
		p.RequestID = requestOf(ctx.Context()).RequestID
		return &p
	}
})

// OpenAPI is the document of the API: what make generate writes down.
func OpenAPI() ([]byte, error) {
	a := &API{mux: http.NewServeMux()}
	ourWords()
	a.huma = humago.New(a.mux, document())
	a.routes()
	return a.huma.OpenAPI().MarshalJSON()
}

func (a *API) routes() {
	a.identityRoutes()
	a.typeRoutes()
	a.userRoutes()
	a.consentRoutes()
	a.statusRoutes()
	a.connectorRoutes()
	a.uploadRoutes()
	a.badgeRoutes()
	a.runRoutes()
	a.jobRoutes()
	a.lookRoutes()
	a.queueRoutes()
	a.administrationRoutes()
	a.limitRoutes()
	a.calendarRoutes()
	a.blackoutRoutes()
	a.conditionRoutes()
	a.searchRoutes()
	a.watchRoutes()
	a.deadLetterRoutes()
	a.webhookRoutes()
	a.operationRoutes()
}

const operationKey = "operation"

func scopesOf(operation identity.Operation) string {
	names := make([]string, 0, 2)
	for _, scope := range identity.ScopesOf(operation) {
		names = append(names, string(scope))
	}
	return strings.Join(names, " or ")
}

// register adds an operation: its rule is looked at before its handler is called, and every error becomes an answer.
func register[I, O any](a *API, operation identity.Operation, method, path, summary string, status int, handle func(context.Context, *I) (*O, error), change ...func(*huma.Operation)) {
	rule := identity.RuleOf(operation)
	errs := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
	if rule.Right != identity.Nothing || operation == identity.RevokeToken {
		errs = append(errs, http.StatusNotFound)
	}
	if method == http.MethodPatch || method == http.MethodPut || method == http.MethodDelete {
		errs = append(errs, http.StatusPreconditionFailed, http.StatusPreconditionRequired)
	}
	if method != http.MethodGet {
		errs = append(errs, http.StatusConflict, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	described := huma.Operation{
		OperationID: string(operation), Method: method, Path: base + path, Summary: summary, DefaultStatus: status, MaxBodyBytes: maxBody, Errors: errs,
		Description: "Scope: " + scopesOf(operation) + ".", Security: []map[string][]string{{"token": {}}}, Metadata: map[string]any{operationKey: operation},
	}
	for _, c := range change {
		c(&described)
	}
	huma.Register(a.huma, described, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, a.failed(ctx, err)
		}
		if method != http.MethodGet {
			failpoint.At("api.changed")
		}
		return out, nil
	})
}

// failed is the answer to an error. What people cannot mend is logged.
func (a *API) failed(ctx context.Context, err error) *problem.Problem {
	p := *problem.Of(err)
	p.RequestID = requestOf(ctx).RequestID
	switch p.Status {
	case http.StatusInternalServerError:
		a.log.Error("a request failed by a defect", "request", p.RequestID, "err", errors.Unwrap(&p))
	case http.StatusServiceUnavailable:
		if cause := errors.Unwrap(&p); cause != nil { // else it has no place for more, as it says
			a.log.Warn("a request is not answered: Postgres, NATS, the search index, or the issuer of its token, does not answer", "request", p.RequestID, "err", cause)
		}
	}
	return &p
}

// contextKey names what the context of a request has. All are here, so that no two are the same.
type contextKey int

const (
	// requestKey is of whom it serves, an identity.Request.
	requestKey contextKey = iota
	// keyedKey is of its idempotency key, a keyed.
	keyedKey
	// peerKey is of the address that it has come from, originKey of that which it has come to.
	peerKey
	originKey
	// lastingKey is of the context that ends with its connection, not with its deadline.
	lastingKey
	// answerKey is of the answer itself, whose connection has its own deadlines.
	answerKey
)

// requestOf is whom a request serves.
func requestOf(ctx context.Context) identity.Request {
	request, _ := ctx.Value(requestKey).(identity.Request)
	return request
}

// How the statements of a transaction are planned. None is compiled. What the session said of that is another's behind a pooler.
var (
	// eachTime is for statements whose best plan depends on what is asked.
	eachTime = []postgres.Setting{{Name: "jit", Value: "off"}, {Name: "plan_cache_mode", Value: "force_custom_plan"}}
	// alongKeys is for those that also are to follow keys, whatever the planner thinks of the tables.
	alongKeys = slices.Concat(eachTime, walks)
	// byKeys is for those that find all they read by a key: they keep their plans, whatever there was when they were made.
	byKeys = slices.Concat([]postgres.Setting{{Name: "jit", Value: "off"}, {Name: "plan_cache_mode", Value: "force_generic_plan"}}, walks)

	walks = []postgres.Setting{{Name: "enable_seqscan", Value: "off"}, {Name: "enable_hashjoin", Value: "off"}, {Name: "enable_mergejoin", Value: "off"}}
)

// served are the settings of a transaction that serves a request: whom, for what it sees and what the audit says of it, and how it is planned.
func served(of identity.Request, planned []postgres.Setting) []postgres.Setting {
	groups, change, create := of.GroupSettings()
	return slices.Concat([]postgres.Setting{
		{Name: "echomind.request", Value: of.Setting()}, {Name: "echomind.groups", Value: groups}, {Name: "echomind.change_groups", Value: change}, {Name: "echomind.create_groups", Value: create},
	}, planned)
}

// in does the work of a request in one transaction that says whom it serves.
func (a *API) in(ctx context.Context, work func(ctx context.Context, q *dbgen.Queries) error) error {
	return a.inTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return work(ctx, dbgen.New(tx)) })
}

// byKey is in for work that finds everything by a key: its statements are not planned anew.
func (a *API) byKey(ctx context.Context, work func(ctx context.Context, q *dbgen.Queries) error) error {
	return a.byKeyTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return work(ctx, dbgen.New(tx)) })
}

// inTx is in for statements of another package.
func (a *API) inTx(ctx context.Context, work func(ctx context.Context, tx pgx.Tx) error) error {
	return a.transact(ctx, eachTime, work)
}

// byKeyTx is byKey for statements of another package.
func (a *API) byKeyTx(ctx context.Context, work func(ctx context.Context, tx pgx.Tx) error) error {
	return a.transact(ctx, byKeys, work)
}

func (a *API) transact(ctx context.Context, planned []postgres.Setting, work func(ctx context.Context, tx pgx.Tx) error) error {
	each := deadline.Of(statementTimeout)
	bounds := postgres.Bounds{Lock: lockTimeout, Statement: each, Idle: each, Settings: served(requestOf(ctx), planned)}
	return deadline.Do(ctx, "api.request", queryTimeout, func(ctx context.Context) error {
		return postgres.TxBounded(ctx, a.pool, bounds, func(tx pgx.Tx) error { return work(ctx, tx) })
	})
}
