package stack_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/testonly/tracingtest"
)

// planted stands wherever people put what nobody else may read: in queries, users and fragments of URLs, in the wrong
// field, in the password field of a type that has none.
const planted = "pl4nted-s3cret"

// leaky is a site whose pages, redirects and errors are about URLs with secrets in them.
func leaky(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /forbidden")
	})
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<title>Pages</title><p>A page about walruses, which nobody else has.</p>
			<a href="/broken?token=`+planted+`">1</a> <a href="/missing?sig=`+planted+`">2</a> <a href="/loop?code=`+planted+`">3</a>
			<a href="/o'brien?key=`+planted+`">o</a> <a href="/drives('b!x')/items('01')/content?tempauth=`+planted+`">d</a>
			<a href="/binary?key=`+planted+`">4</a> <a href="/forbidden?password=`+planted+`">5</a> <a href="/away?pwd=`+planted+`">6</a>`)
	}
	mux.HandleFunc("/{$}", page)
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/missing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	mux.HandleFunc("/o'brien", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/drives('b!x')/items('01')/content", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://bob:it's"+planted+"@elsewhere.example/a'b?code="+planted, http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.String(), http.StatusFound) })
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://bob:"+planted+"@elsewhere.example/?session="+planted+"#"+planted, http.StatusFound)
	})
	mux.HandleFunc("/binary", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/zip")
		_, _ = w.Write([]byte("PK\x03\x04\x00\x00\x00"))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// plants are configurations of every type with a secret in every place that takes a text.
func plants(site, folder string) map[string][]map[string]any {
	p := planted
	inURL := "https://bob:" + p + "@host.example/path?token=" + p + "#access_token=" + p
	quoted := "https://bob:pa'" + p + "@host.example/o'brien(\"1\")<2>?token=it's" + p + "#'" + p
	dsn := "host=db.example user=bob password=" + p + " dbname=x"
	web := []map[string]any{
		{"url": site + "/?token=" + p}, {"url": strings.Replace(site, "http://", "http://bob:"+p+"@", 1) + "/"},
		{"url": strings.Replace(site, "http://", "http://"+p+"@", 1)},
		{"url": "http://127.0.0.1:1/?sig=" + p + "#" + p}, {"url": "ftp://bob:" + p + "@host.example/?key=" + p}, {"url": "http://[bad?token=" + p},
		{"url": site, "path_prefix": "/x?token=" + p}, {"url": quoted}, {"url": site, "path_prefix": "/o'brien?token=" + p}, {"url": site, "password": p}, {"url": "https://no-such-name.invalid/?token=" + p},
	}
	for _, path := range []string{"/missing?api_key=", "/broken?auth=", "/loop?cookie=", "/forbidden?pass=", "/away?token=", "/binary?jwt=",
		"/o'brien?key=", "/drives('b!x')/items('01')/content?tempauth=", "/missing?q='a'&\"code\"="} {
		web = append(web, map[string]any{"url": site + path + p})
	}
	file := []map[string]any{
		{"url": "file://bob:" + p + "@host.example/x"}, {"url": "file:///x?token=" + p}, {"url": inURL}, {"url": "s3://bob:" + p + "@bucket/x?sig=" + p},
		{"url": "file://" + folder, "include": []string{inURL + "{"}}, {"url": "file://" + folder, "exclude": []string{"/" + inURL}},
		{"url": "file://" + folder, "password": p}, {"url": dsn}, {"url": quoted}, {"url": "file://" + folder, "include": []string{quoted + "{"}},
	}
	// The fields of the remote ones, each on its own beside what makes the rest valid.
	credentials := map[string]any{"client_id": "app", "tenant_id": "contoso.example"}
	remote := func(fields []string, rest map[string]any) (all []map[string]any) {
		for _, field := range append(fields, "client_id", "tenant_id", "refresh_token", "client_secret", "password") {
			for _, value := range []any{inURL, dsn, quoted, map[string]any{"password": p}} {
				one := map[string]any{}
				for _, from := range []map[string]any{credentials, rest, {field: value}} {
					for name, v := range from {
						one[name] = v
					}
				}
				all = append(all, one)
			}
		}
		return all
	}
	return map[string][]map[string]any{
		"web": web, "file": file,
		"onedrive":     remote([]string{"drive_id", "site", "group_id", "user", "folder", "item_id"}, nil),
		"teams":        remote([]string{"team_id", "channel_id"}, map[string]any{"team_id": "t", "channel_id": "c"}),
		"google_drive": remote([]string{"source", "drive_id", "folder_id", "subject", "service_account"}, nil),
	}
}

func TestASecretInAnyPlaceOfAnyConfigurationIsShownNowhere(t *testing.T) {
	site, dir, root := leaky(t), dataFolder(t), t.TempDir()
	logs, letters := &recorder{}, &recorder{}
	collector := tracingtest.New(t)
	conn, stop := run(t, dir, root, func(cfg *stack.Config) {
		cfg.Log = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
		cfg.HTTPAddr = "127.0.0.1:0"
		cfg.Chunker.AllowCIDRs = []string{"127.0.0.0/8", "::1/128"}
		for _, shared := range []*config.Common{&cfg.Scheduler.Common, &cfg.Chunker.Common, &cfg.Connector.Common, &cfg.Semantic.Common} {
			shared.Tracing, shared.ShutdownGraceSeconds = collector.Config(), 1
		}
		cfg.Connector.MicrosoftLoginURL, cfg.Connector.GoogleTokenURL = site.URL+"/broken", site.URL+"/broken"
		cfg.Connector.MicrosoftGraphURL, cfg.Connector.GoogleDriveURL = site.URL+"/broken", site.URL+"/broken"
	})
	stop = sync.OnceFunc(stop)
	defer stop()
	info, err := devstack.Discover(dir)
	require.NoError(t, err)
	// Triggers and their copies hold the configuration, and documents their own addresses; everything else is looked at whole, and of a
	// dead letter what was added to it.
	overhear(t, info.NATSURL, letters, func(m *nats.Msg) []byte {
		if strings.Contains(m.Subject, "connector.sync.") || m.Subject == "document.process" || strings.HasPrefix(m.Subject, "dlq.") ||
			strings.HasPrefix(m.Subject, "$JS") || strings.HasPrefix(m.Subject, "_INBOX") {
			return nil
		}
		return m.Data
	})

	ids := map[string][]int{}
	for connectorType, configs := range plants(site.URL, root) {
		for _, c := range configs {
			ids[connectorType] = append(ids[connectorType], insert(t, conn, connectorType, c))
		}
	}
	for connectorType, all := range ids {
		for i, id := range all {
			want := "failed"
			if connectorType == "web" && i == 0 {
				want = "completed"
			}
			require.Equal(t, want, verdict(t, conn, id), "%s %d", connectorType, i)
		}
	}
	printed := prints(t, dir, "connectors list", "connectors list -o json", "dlq list", "status", "search --user 1 walruses")
	for _, all := range ids {
		for _, id := range all {
			printed += prints(t, dir, fmt.Sprintf("connectors get %d", id), fmt.Sprintf("why %d", id), fmt.Sprintf("runs %d -o json", id), fmt.Sprintf("documents %d", id))
		}
	}
	exposed, ledger := metrics(t, info.HTTPAddr), messages(t, conn)
	stop() // sends the spans that are left
	requireNowhere(t, planted, map[string]string{
		"logs": logs.String(), "letters": letters.String(), "metrics": exposed, "ledger": ledger,
		"output": printed, "traces": string(bytes.Join(collector.Bodies(), nil)),
	})
	require.Contains(t, ledger, "REDACTED", "something was about a URL")
}

// messages are all texts of the ledger, of connectors and documents that a program of ours has written about them.
func messages(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT r::text FROM runs r UNION ALL SELECT r::text FROM open_runs r
		UNION ALL SELECT concat_ws(' ', status_message, state) FROM connectors
		UNION ALL SELECT concat_ws(' ', error, title) FROM documents UNION ALL SELECT m::text FROM message_tries m
		UNION ALL SELECT q::text FROM provider_quotas q`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(lines, "\n")
}
