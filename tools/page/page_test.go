package page

import (
	"context"
	"crypto/sha256"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/events"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
	"github.com/echomind/sync/db"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/internal/streams"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/signintest"
	"github.com/echomind/sync/testonly/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// stage is the page on a database of its own, and a browser in front of it.
type stage struct {
	*testing.T
	conn *pgx.Conn
	// url is where the page is.
	url     string
	browser context.Context
	js      jetstream.JetStream
	mu      sync.Mutex
	// abroad is a host that the browser is sent to on purpose.
	abroad string
	// wrong is what scripts and the browser complain of, and requests that go elsewhere.
	wrong []string
}

func newStage(t *testing.T, change ...func(*api.Config)) *stage {
	t.Helper()
	key, err := secret.NewKey()
	require.NoError(t, err)
	cfg := api.Config{Secrets: config.Secrets{SecretsKey: key}, Rate: 10_000, Burst: 10_000, RequestSeconds: 10, MaxConnections: 100, MaxWatchers: 100}
	for _, c := range change {
		c(&cfg)
	}
	broker := testkit.NATS(t)
	conn, js, err := connect.Once(broker.URL(), config.NATSAccess{})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	require.NoError(t, streams.EnsureStreams(t.Context(), js))
	cfg.DatabaseURL, cfg.NATSURL = testkit.Database(t, db.Up), broker.URL()
	pool, err := postgres.Open(t.Context(), cfg.DatabaseURL, "echomind-api", 4, postgres.As("echomind_api"))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	a, err := api.New(cfg, pool, connect.NewProcess(testkit.Logger(t)))
	require.NoError(t, err)
	server := httptest.NewServer(a.Handler())
	t.Cleanup(server.Close)
	s := &stage{T: t, url: server.URL, js: js}
	s.conn, err = pgx.Connect(t.Context(), cfg.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.conn.Close(context.WithoutCancel(t.Context())) })
	s.open()
	return s
}

func (s *stage) open() {
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("lang", "en-GB"), chromedp.UserDataDir(s.TempDir()))
	allocated, cancel := chromedp.NewExecAllocator(s.Context(), options...)
	s.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(allocated)
	s.Cleanup(cancel)
	s.browser = browser
	own, err := url.Parse(s.url)
	require.NoError(s, err)
	s.do() // it is opened, and ended with the test
	require.NoError(s, chromedp.Listen(browser, func(event any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if at, err := url.Parse(e.Request.URL); err != nil || at.Host != own.Host && at.Host != s.abroad {
				s.wrong = append(s.wrong, "a request to "+e.Request.URL)
			}
		case *runtime.EventExceptionThrown:
			s.wrong = append(s.wrong, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				s.wrong = append(s.wrong, e.Entry.Text)
			}
		}
	}))
	_, err = chromedp.Call(browser, network.Enable, network.EnableParams{})
	require.NoError(s, err)
	_, err = chromedp.Call(browser, log.Enable, cdp.Empty{})
	require.NoError(s, err)
}

func (s *stage) do(actions ...chromedp.Action[chromedp.Void]) {
	s.Helper()
	require.NoError(s, chromedp.Do(s.browser, actions...))
}

// text is what an element shows.
func (s *stage) text(selector string) string {
	s.Helper()
	text, err := chromedp.Run(s.browser, chromedp.Text(chromedp.CSS(selector)))
	require.NoError(s, err)
	return text
}

func (s *stage) exec(sql string, args ...any) {
	s.Helper()
	_, err := s.conn.Exec(s.Context(), sql, args...)
	require.NoError(s, err, sql)
}

// visit opens a path, and waits until it is there.
func (s *stage) visit(path string) {
	s.Helper()
	s.do(chromedp.Navigate(s.url+path), chromedp.WaitVisible(chromedp.CSS("main")))
}

// signIn is the first visit, by a link.
func (s *stage) signIn(user int32, role identity.Role) {
	s.Helper()
	made, code := identity.NewSecret(), string(identity.NewSecret())
	sum := sha256.Sum256([]byte(code))
	var id int32
	require.NoError(s, s.conn.QueryRow(s.Context(), `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by) VALUES ($1, $2, '{read,operate,write,admin}', $3, 'test')
		RETURNING id`, user, string(role), made.Hash()).Scan(&id))
	s.exec(`INSERT INTO sign_in_links VALUES ($1, $2, clock_timestamp() + interval '15 minutes')`, sum[:], id)
	s.visit("/sign-in?code=" + code)
}

// furnish has sources of every state, with a past.
func (s *stage) furnish() {
	s.Helper()
	force := func(sql string, args ...any) { movestest.Force(s, s.conn, sql, args...) }
	s.exec(`INSERT INTO connectors (name, type, user_id, scope, scope_id, config, schedule_cron, time_zone, refresh_freq_minutes) VALUES
		('Handbook', 'web', 7, 'org', NULL, '{"url": "https://handbook.example/", "max_pages": 500}', '0 * * * *', 'Europe/Berlin', NULL),
		('Support articles, in all languages, of every product that was ever sold, and the archive of what came before them', 'web', 7, 'user', NULL, '{"url": "https://support.example/"}', NULL, 'UTC', 60),
		('Contracts', 'onedrive', 7, 'group', 'legal', '{}', '0 3 * * 1-5', 'America/New_York', NULL),
		('Team notes', 'teams', 8, 'group', 'legal', '{}', NULL, 'UTC', 1440),
		('Old wiki', 'web', 7, 'user', NULL, '{"url": "https://wiki.example/", "password": "hunter2"}', NULL, 'UTC', 60),
		('Drawings', 'file', 9, 'user', NULL, '{"url": "file:///srv/drawings"}', NULL, 'UTC', NULL)`)
	force(`UPDATE connectors SET status = 'ACTIVE', last_sync_at = clock_timestamp() - interval '25 minutes' - id * interval '3 minutes',
		next_sync_at = date_trunc('hour', clock_timestamp()) + interval '1 hour', due_reason = 'schedule', needs_plan = false WHERE id <> 6`)
	force(`UPDATE connectors SET status = 'ERROR', status_message = 'https://support.example/ answered 503 to the last 3 tries', failure_count = 3, due_reason = 'retry', next_sync_at = clock_timestamp() + interval '7 minutes' WHERE id = 2`)
	s.exec(`SELECT moves.disable(5, 'disabled by user 7')`)
	force(`INSERT INTO runs (id, connector_id, type, trigger, slot, slot_last, missed_count, due_at, started_at, picked_up_at, fetched_at, completed_at, status, reason, error_message, config_version,
			dispatches, documents_processed, documents_unchanged, documents_failed)
		SELECT gen_random_uuid(), c.id, c.type, 'schedule', at, CASE WHEN what = 'missed' THEN at + interval '5 hours' END, CASE WHEN what = 'missed' THEN 6 END, at, at + interval '2 seconds',
			CASE WHEN what <> 'missed' THEN at + interval '4 seconds' + n % 5 * interval '3 seconds' END, CASE WHEN what IN ('completed', 'skipped') THEN at + interval '20 seconds' + n % 7 * interval '9 seconds' END,
			at + interval '40 seconds' + n % 7 * interval '12 seconds', what,
			CASE what WHEN 'failed' THEN 'transient' WHEN 'missed' THEN 'no scheduler claimed it in time' WHEN 'superseded' THEN 'changed' END,
			CASE what WHEN 'failed' THEN 'https://support.example/ answered 503 to the last 3 tries' END, c.config_version, 1, n % 9, 480 - n % 9, n % 3
		FROM connectors c CROSS JOIN generate_series(1, 34) n
			CROSS JOIN LATERAL (SELECT date_trunc('hour', clock_timestamp()) - n * interval '1 hour' AS at, CASE WHEN c.id = 2 AND n <= 3 THEN 'failed' WHEN (n + c.id) % 17 = 0 THEN 'missed'
				WHEN (n + c.id) % 13 = 0 THEN 'superseded' WHEN (n * 7 + c.id) % 11 = 0 THEN 'failed' WHEN (n + c.id) % 3 = 0 THEN 'skipped' ELSE 'completed' END AS what) w
		WHERE c.id <> 6`)
	s.exec(`SELECT moves.trigger_sync(3), moves.trigger_sync(4)`)
	movestest.PickUp(s, s.conn, 3, movestest.Claim(s, s.conn, 3), 10*time.Minute)
	movestest.Claim(s, s.conn, 4)
	force(`INSERT INTO documents (connector_id, source_id, title, url, media_type, status, error, config_version)
		SELECT 1, 'https://handbook.example/' || n, 'Page ' || n, 'https://handbook.example/' || n, 'text/html', 'failed',
			CASE WHEN n < 12 THEN 'it answered 404' ELSE 'it has no text' END, c.config_version FROM generate_series(1, 15) n, connectors c WHERE c.id = 1`)
}

// picture keeps what the browser shows as a file of docs; PAGE_PICTURES is the folder, without it nothing is kept.
func (s *stage) picture(name string, width, height int64, dark bool) {
	s.Helper()
	folder := os.Getenv("PAGE_PICTURES")
	if folder == "" {
		return
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(s.browser, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(s, err)
	s.do(chromedp.EmulateViewport(width, height))
	image, err := chromedp.Run(s.browser, chromedp.CaptureScreenshot())
	require.NoError(s, err)
	require.NoError(s, os.WriteFile(filepath.Join(folder, name+".png"), image, 0o600))
}

// fits requires that nothing is wider than the window.
func (s *stage) fits(width int64) {
	s.Helper()
	s.do(chromedp.EmulateViewport(width, 900))
	wide, err := chromedp.Run(s.browser, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
	require.NoError(s, err)
	require.LessOrEqual(s, wide, width)
}

func (s *stage) nothingWrong() {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(s, s.wrong)
}

func TestAUsersDayInABrowser(t *testing.T) {
	s := newStage(t)
	s.furnish()
	s.signIn(1, identity.Superadmin)
	require.Contains(t, s.text("main"), "Handbook")
	s.furnishMore()
	for _, path := range everyPage {
		s.visit(path)
		for _, width := range []int64{1400, 900, 375} {
			s.fits(width)
		}
	}
	for _, picture := range []struct {
		name, path    string
		width, height int64
		dark          bool
	}{
		{"sources", "/", 1180, 760, false}, {"source-dark", "/sources/2", 1100, 820, true}, {"phone", "/", 375, 780, false},
		{"source", "/sources/1", 1400, 2600, false}, {"sources-dark", "/", 1400, 900, true}, {"source-phone", "/sources/2", 375, 1800, false},
		{"schedule", "/sources/1/schedule?schedule_cron=0+*%2F2+*+*+*", 1400, 1300, false}, {"sign-in", "/sign-in", 1000, 600, false},
		{"runs", "/runs", 1280, 900, false}, {"problems", "/problems", 1000, 560, false}, {"administration", "/administration", 1280, 1200, false}, {"audit", "/audit", 1000, 600, false},
		{"nothing", "/?name=nowhere", 1000, 600, false}, {"add", "/sources/add?kind=onedrive", 1000, 900, false}, {"add-phone", "/sources/add", 375, 900, true},
	} {
		s.visit(picture.path)
		s.picture(picture.name, picture.width, picture.height, picture.dark)
	}
	s.visit("/sources/5")
	s.do(chromedp.Click(chromedp.CSS(`form[action$="/enable"] button`)), chromedp.WaitVisible(chromedp.CSS(".said")))
	require.Contains(t, s.text("main"), "The source is enabled.")
	require.Contains(t, s.text(".zones"), "UTC")
	s.nothingWrong()
}

func TestASourceIsAddedAndItsAccountConnectedInABrowser(t *testing.T) {
	provider := signintest.New()
	t.Cleanup(provider.Close)
	s := newStage(t, func(cfg *api.Config) {
		cfg.Consent = consent.Config{
			GoogleAuthURL: provider.GoogleAuthURL(), GoogleTokenURL: provider.GoogleTokenURL(), GoogleClientID: signintest.ClientID, GoogleClientSecret: signintest.ClientSecret,
		}
	})
	provider.Web = s.url + "/connect/back"
	s.abroad = strings.TrimPrefix(provider.URL, "http://")
	s.signIn(7, identity.User)
	s.do(chromedp.Click(chromedp.CSS(`a[href="/sources/add"]`)), chromedp.WaitVisible(chromedp.CSS(`a[href="/sources/add?kind=google_drive"]`)))
	s.do(chromedp.Click(chromedp.CSS(`a[href="/sources/add?kind=google_drive"]`)), chromedp.WaitVisible(chromedp.CSS(`input[name="folder_id"]`)))
	s.do(chromedp.SendKeys(chromedp.CSS(`input[name="name"]`), "Plans"), chromedp.SendKeys(chromedp.CSS(`input[name="folder_id"]`), "1a2b"))
	s.do(chromedp.Click(chromedp.CSS(`form.edit button`)), chromedp.WaitVisible(chromedp.CSS(".said")))
	require.Contains(t, s.text("main"), "The source is added.")
	s.do(chromedp.Click(chromedp.CSS(`form[action$="/connect"] button`)), chromedp.WaitVisible(chromedp.CSS(`a[rel="noreferrer"]`)))
	s.fits(375)
	s.picture("consent", 1000, 700, false)
	s.do(chromedp.Click(chromedp.CSS(`a[rel="noreferrer"]`)), chromedp.WaitVisible(chromedp.CSS(".said")))
	require.Contains(t, s.text("main"), "It is connected, and everything is fetched again.")
	var sealed bool
	require.NoError(t, s.conn.QueryRow(t.Context(), `SELECT config->>'refresh_token' NOT LIKE '%refresh-token%' AND config->>'folder_id' = '1a2b' FROM connectors`).Scan(&sealed))
	require.True(t, sealed)
	s.nothingWrong()
}

func TestWhatIsShownFollowsWhatHappens(t *testing.T) {
	s := newStage(t)
	s.furnish()
	s.signIn(7, identity.User)
	for _, path := range []string{"/", "/sources/2"} {
		s.visit(path)
		s.do(chromedp.Focus(chromedp.CSS(`form[action="/sources/2/sync"] button`)))
		s.exec(`UPDATE connectors SET name = $1 WHERE id = 2`, "Articles of "+path)
		tells := func() {
			msg, err := events.Event{ID: uuid.NewString(), Time: time.Now(), Run: &publicpb.RunEvent{ConnectorId: 2, Type: "web", Verdict: "completed"}}.Message()
			require.NoError(t, err)
			_, err = s.js.PublishMsg(t.Context(), msg)
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool {
			tells() // the stream may not be open yet
			return strings.Contains(s.text("main"), "Articles of "+path)
		}, time.Minute, 100*time.Millisecond)
		focused, err := chromedp.Run(s.browser, chromedp.Evaluate[string](`document.activeElement.closest("form").getAttribute("action")`))
		require.NoError(t, err)
		require.Equal(t, "/sources/2/sync", focused)
	}
	s.nothingWrong()
}

func TestSourcesThatAreAddedOrDeletedMeanwhileAreInTheirPlaceOfTheList(t *testing.T) {
	s := newStage(t)
	s.signIn(7, identity.User)
	add := func(id int32, name, kind string) {
		s.exec(`INSERT INTO connectors (id, name, type, user_id, config, refresh_freq_minutes) VALUES ($1, $2, $3, 7, '{}', NULL)`, id, name, kind)
	}
	tells := func(of *publicpb.ConnectorEvent) {
		msg, err := events.Event{ID: uuid.NewString(), Time: time.Now(), Connector: of}.Message()
		require.NoError(t, err)
		_, err = s.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	shows := func(names ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			tells(&publicpb.ConnectorEvent{ConnectorId: 30, Type: "web", Status: publicpb.ConnectorStatus_CONNECTOR_STATUS_ACTIVE}) // the stream may not be open yet
			shown, err := chromedp.Run(s.browser, chromedp.Evaluate[string](`[...document.querySelectorAll(".sources a.name")].map((e) => e.textContent).join()`))
			require.NoError(t, err)
			return shown == strings.Join(names, ",")
		}, time.Minute, 100*time.Millisecond, names)
	}
	s.visit("/?sort=id&type=web")
	require.Contains(t, s.text("main"), "No source that you see matches.")
	add(30, "thirty", "web")
	shows("thirty")
	s.do(chromedp.Focus(chromedp.CSS(`form[action="/sources/30/sync"] button`)), chromedp.SendKeys(chromedp.CSS(`input[name="name"]`), "half a na"))
	s.do(chromedp.Focus(chromedp.CSS(`form[action="/sources/30/sync"] button`)))
	add(20, "twenty", "web")
	add(25, "of another type", "file")
	add(40, "forty", "web")
	shows("twenty", "thirty", "forty")
	kept, err := chromedp.Run(s.browser, chromedp.Evaluate[string](`document.activeElement.getAttribute("aria-label") + ", " + document.querySelector("input[name=name]").value`))
	require.NoError(t, err)
	require.Equal(t, "Sync now: thirty, half a na", kept)
	s.exec(`DELETE FROM connectors WHERE id = 20`)
	tells(&publicpb.ConnectorEvent{ConnectorId: 20, Type: "web"})
	shows("thirty", "forty")
	s.nothingWrong()
}

func TestTheQueueThatIsShownFollowsWhatHappens(t *testing.T) {
	s := newStage(t)
	s.furnish()
	s.signIn(1, identity.Superadmin)
	s.visit("/queue")
	require.Contains(t, s.text("main"), "Team notes")
	s.exec(`SELECT moves.disable(4, 'x')`)
	tells := func(connector int32) {
		msg, err := events.Event{ID: uuid.NewString(), Time: time.Now(), Run: &publicpb.RunEvent{ConnectorId: connector, Type: "teams", Verdict: "superseded"}}.Message()
		require.NoError(t, err)
		_, err = s.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		tells(4) // the stream may not be open yet
		return !strings.Contains(s.text("main"), "Team notes")
	}, time.Minute, 100*time.Millisecond)
	s.exec(`SELECT moves.enable(4), moves.trigger_sync(4)`) // it is not shown
	waits := events.Event{Time: time.Now(), Connector: &publicpb.ConnectorEvent{ConnectorId: 4, Type: "teams", Was: publicpb.ConnectorStatus_CONNECTOR_STATUS_ACTIVE,
		Status: publicpb.ConnectorStatus_CONNECTOR_STATUS_PENDING}}
	require.Eventually(t, func() bool {
		waits.ID = uuid.NewString()
		msg, err := waits.Message()
		require.NoError(t, err)
		_, err = s.js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
		return strings.Contains(s.text("main"), "Team notes")
	}, time.Minute, 100*time.Millisecond)
	s.nothingWrong()
}
