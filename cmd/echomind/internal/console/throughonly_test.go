package console_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/client"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/testonly/testkit"
)

// works runs through the server, and must exit with 0.
func (u away) works(args ...string) string {
	u.t.Helper()
	out := u.through(args...)
	require.Equal(u.t, 0, out.code, "%v: %s", args, out.stderr)
	return out.stdout
}

// told is what programs are shown through the server.
func told[T any](u away, args ...string) (what T) {
	u.t.Helper()
	text := u.works(append(args, "-o", "json")...)
	require.NoError(u.t, json.Unmarshal([]byte(text), &what), text)
	return what
}

// refused runs through the server, and must exit with a code and say why.
func (u away) refused(code int, why string, args ...string) {
	u.t.Helper()
	out := u.through(args...)
	require.Equal(u.t, code, out.code, "%v: %s%s", args, out.stdout, out.stderr)
	require.Contains(u.t, out.stderr, why, "%v", args)
	require.Empty(u.t, out.stdout, "%v", args)
}

// replica runs all of another replica of the API until the test ends.
func (u away) replica() {
	u.t.Helper()
	cfg := u.config
	cfg.Addr = "127.0.0.1:0"
	ctx, stop := context.WithCancel(u.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- api.Run(ctx, cfg, connect.NewProcess(testkit.Logger(u.t))) }()
	u.t.Cleanup(func() {
		stop()
		require.NoError(u.t, <-ended)
	})
}

func sealing(t *testing.T) func(*api.Config) {
	t.Helper()
	key, err := secret.NewKey()
	require.NoError(t, err)
	return func(c *api.Config) { c.SecretsKey, c.WebhookAllowCIDRs = key, []string{"127.0.0.0/8"} }
}

func TestCommandsThatGoThroughAServerAloneSayHowWhereThereIsNone(t *testing.T) {
	u := newAway(t)
	for _, command := range []string{"webhooks list", "operations show 1", "operations sync --all --yes", "files list 1"} {
		args := strings.Fields(command)
		out := u.through(args...)
		require.Equal(t, 1, out.code, command)
		require.Contains(t, out.stderr, "echomind "+args[0]+" "+args[1]+" goes through a server: not logged in to a server: `echomind login URL`, or set ECHOMIND_URL and ECHOMIND_TOKEN", command)
	}
	require.Equal(t, 0, u.fed(u.token(1, identity.Superadmin), "login", u.server.URL).code)
	t.Setenv("DATABASE_URL", u.lookup.DatabaseURL)
	out := u.through("webhooks", "list")
	require.Equal(t, output{"no webhooks; `echomind webhooks add --url URL` adds one\n", "", 0}, out, "whatever DATABASE_URL says")
}

func TestVeryManyDeadLettersAreReplayedByAnOperationOfTheServer(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	u.add("--refresh", "manual")
	u.letter(u.jetstream(), topology.DocumentSubject, part(1, 7, "a.md"))
	u.signedIn(u.token(1, identity.Superadmin))
	u.refused(2, "--background goes with --all", "dlq", "replay", "1", "--background")
	require.Equal(t, "operation 1 has begun; `echomind operations show 1` tells how far it has come\n", u.through("dlq", "replay", "--all", "--connector", "1", "--background").stdout)
	require.Regexp(t, `action +replay\ndead letters +--connector 1\n`, u.through("operations", "show", "1").stdout)
	require.Equal(t, 0, u.through("dlq", "drop", "--all", "--yes", "--background").code)
	require.Regexp(t, `2 +drop +all letters +waiting`, u.through("operations", "list").stdout)
}

func TestAWebhookIsAddedTriedChangedAndDeleted(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway(sealing(t))
	u.add()
	var got http.Header
	arrived := make(chan struct{}, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.WriteHeader(http.StatusTeapot)
		arrived <- struct{}{}
	}))
	t.Cleanup(receiver.Close)
	u.signedIn(u.token(7, identity.User))
	u.refused(2, "--url: ", "webhooks", "add", "--url", "ftp://example.org/")
	u.refused(2, `--events "late": must be of failed, disabled, stale, recovered`, "webhooks", "add", "--url", receiver.URL, "--events", "late")
	u.refused(2, "--events: recovered is told after", "webhooks", "add", "--url", receiver.URL, "--events", "recovered")
	u.refused(2, `required flag(s) "url" not set`, "webhooks", "add")
	u.refused(2, `--enabled "no": must be on or off`, "webhooks", "update", "1", "--enabled", "no")
	u.refused(1, "there is no webhook 9; `echomind webhooks list` shows those there are", "webhooks", "update", "9", "--name", "x")
	for _, command := range []string{"show 9", "test 9", "secret 9", "deliveries 9", "delete 9 --yes"} {
		u.refused(1, "there is no webhook 9; ", append([]string{"webhooks"}, strings.Fields(command)...)...)
	}
	u.refused(2, `WEBHOOK "x": must be a number`, "webhooks", "show", "x")

	said := u.works("webhooks", "add", "--url", receiver.URL, "--name", "ops", "--events", "failed,recovered", "--note", "on call")
	require.Regexp(t, "^webhook 1 is added; its secret, which is shown this once: whsec_\\S+\n`echomind webhooks test 1` sends it a message\n$", said)
	require.Equal(t, "on call", u.row(`SELECT note FROM audit WHERE action = 'webhooks.create'`))
	made := regexp.MustCompile(`whsec_\S+`).FindString(said)
	require.NotContains(t, u.works("webhooks", "show", "1", "-o", "json")+u.works("webhooks", "list", "-o", "json"), made)
	require.Regexp(t, `(?m)^1 +ops +`+regexp.QuoteMeta(receiver.URL)+` +all +failed,recovered +on +7 +user +`, u.works("webhooks", "list", "-o", "wide"))
	require.Regexp(t, `(?s)^webhook +1\nname +ops\nurl +`+regexp.QuoteMeta(receiver.URL)+`\nconnectors +all\nis told +failed,recovered\nstate +on\nuser +7, and sees as user\n`, u.works("webhooks", "show", "1"))

	u.replica()
	require.Equal(t, "delivery 1 is on its way to webhook 1; `echomind webhooks deliveries 1` tells what came of it\n", u.works("webhooks", "test", "1"))
	<-arrived
	require.NotEmpty(t, got.Get("webhook-signature"))
	testkit.Eventually(t, time.Minute, func() error {
		if sent := told[[]client.Delivery](u, "webhooks", "deliveries", "1"); len(sent) != 1 || sent[0].LastStatus == nil {
			return fmt.Errorf("%v", sent)
		}
		return nil
	})
	require.Regexp(t, `(?m)^1 +\S+ +webhook.test +- +pending +1 +\S+ +\S+ +answered 418$`, u.works("webhooks", "deliveries", "1", "--state", "pending"))
	require.Equal(t, "no deliveries\n", u.works("webhooks", "deliveries", "1", "--state", "delivered"))
	u.refused(2, `--state "x": must be of`, "webhooks", "deliveries", "1", "--state", "x")
	require.Contains(t, u.works("webhooks", "replay", "1", "1"), "delivery 1 is on its way to webhook 1; ")
	<-arrived
	u.refused(1, "webhook 1 has no delivery 9; ", "webhooks", "replay", "1", "9")

	other := u.works("webhooks", "secret", "1")
	require.Regexp(t, `^whsec_\S+\n$`, other)
	require.NotEqual(t, made+"\n", other)
	require.Contains(t, u.works("webhooks", "show", "1"), "signs as well until")
	require.Equal(t, "webhook 1 is changed\n", u.works("webhooks", "update", "1", "--enabled", "off", "--name", "none"))
	require.Regexp(t, `(?m)^1 +none +.* +off$`, strings.TrimSpace(u.works("webhooks", "list")))
	u.refused(2, "--connector: 1 is no connector that you see", "webhooks", "update", "1", "--connector", "1")
	u.refused(1, `there is no connector "docs"`, "webhooks", "update", "1", "--connector", "docs")
	u.refused(2, "nothing to change; give at least one of --name", "webhooks", "update", "1", "--note", "x")
	u.refused(2, "add --yes if you mean it", "webhooks", "delete", "1")
	require.Equal(t, "webhook 1 is deleted\n", u.works("webhooks", "delete", "1", "--yes"))
	require.Equal(t, "[]\n", u.works("webhooks", "list", "-o", "json"))
}

func TestAnOperationIsPreviewedConfirmedAndWaitedFor(t *testing.T) {
	u := newTerminal(t).withStreams().fromAway()
	for i := range 7 {
		u.add("--name", fmt.Sprint("docs ", i), "--refresh", "manual", "--user", "7")
	}
	u.add("--name", "theirs", "--refresh", "manual", "--user", "8")
	u.succeed("connectors", "disable", "7")
	u.signedIn(u.token(7, identity.User))
	u.refused(2, "echomind operations sync: say which connectors: --name, --type", "operations", "sync", "--yes")
	u.refused(2, "--all: goes without a filter, and there is --type web", "operations", "sync", "--type", "web", "--all", "--yes")
	u.refused(2, "it changes many connectors at once (--dry-run says how many); add --yes if you mean it", "operations", "sync", "--all")
	u.refused(2, "--timeout 1m0s: must be positive, and goes with --wait", "operations", "sync", "--all", "--yes", "--timeout", "1m")
	u.refused(2, "--status: ", "operations", "sync", "--status", "BUSY", "--yes")
	u.refused(2, `--name "": must be a text`, "operations", "sync", "--name", "", "--yes")
	u.refused(1, "0 connectors to sync: nothing to do", "operations", "sync", "--type", "web", "--yes")
	u.refused(1, "there is no operation 9 of yours; ", "operations", "show", "9")
	u.refused(1, "there is no operation 9 of yours; ", "operations", "cancel", "9")
	u.refused(1, "there is no operation 9 of yours; ", "operations", "results", "9")
	require.Equal(t, "no operations of yours\n", u.works("operations", "list"))
	require.Equal(t, "7 connectors to sync: 1 \"docs 0\", 2 \"docs 1\", 3 \"docs 2\", 4 \"docs 3\", 5 \"docs 4\" and 2 more\n", u.works("operations", "sync", "--all", "--dry-run"))
	require.Nil(t, told[map[string]any](u, "operations", "sync", "--all", "--dry-run")["confirm"])
	require.Equal(t, "[]\n", u.works("operations", "list", "-o", "json"), "a dry run begins nothing")

	asked := u.through("operations", "disable", "--name", "docs", "--status", "active", "--yes", "--note", "the move")
	require.Equal(t, "operation 1 disables 6 connectors; `echomind operations show 1` tells how far it has come\n", asked.stdout, asked.stderr)
	require.Contains(t, asked.stderr, "6 connectors to disable: 1 \"docs 0\"")
	require.Regexp(t, `(?m)^1 +disable +--name docs --status ACTIVE +waiting +0 of 6 `, u.works("operations", "list"))
	require.Equal(t, "operation 1 is cancelled; done: 0 of 6: 0 changed, 0 unchanged, 0 left out, 0 failed\n", u.works("operations", "cancel", "1"))
	require.Regexp(t, `(?s)state +cancelled\ndone +0 of 6: .*asked +\S+ by user 7\n`, u.works("operations", "show", "1"))

	u.replica()
	done := u.through("operations", "sync", "--all", "--yes", "--wait")
	require.Equal(t, 1, done.code)
	require.Contains(t, done.stdout, "operation 2 is completed, 7 of 7: 6 changed, 0 unchanged, 0 left out, 1 failed")
	require.Contains(t, done.stderr, "echomind: operation 2 failed for 1 connector; `echomind operations results 2` tells why\n")
	require.Regexp(t, `(?m)^7 \(docs 6\) +failed +\S+ +.*disabled`, u.works("operations", "results", "2"))
	require.Equal(t, "no connector was left out, or failed\n", u.works("operations", "results", "2", "--result", "skipped"))
	waited := told[client.Operation](u, "operations", "enable", "--user", "7", "--yes", "--wait")
	require.Equal(t, []int32{7, 1, 6}, []int32{waited.Matched, waited.Changed, waited.Unchanged})
	require.Contains(t, u.works("operations", "delete", "--name", "docs", "--yes", "--wait"), "is completed, 7 of 7: 7 changed")
	require.Equal(t, "8", u.row(`SELECT string_agg(id::text, ',') FROM connectors`), "what is somebody else's stays")
}

func TestFilesAreUploadedListedAndDeleted(t *testing.T) {
	u := newTerminal(t).fromAway(func(c *api.Config) { c.Uploads.URL = "file://" + t.TempDir() })
	u.signedIn(u.token(7, identity.User))
	u.works("connectors", "add", "--name", "mine", "--type", "file", "--config", `{"url":"upload:"}`, "--refresh", "manual")
	u.works("connectors", "add", "--name", "other", "--type", "file", "--config", folder, "--refresh", "manual")
	u.exec(`UPDATE connectors SET trigger_requested_at = NULL`)
	require.Equal(t, "no files\n", u.works("files", "list", "mine"))
	notes, odd := filepath.Join(t.TempDir(), "notes.md"), filepath.Join(t.TempDir(), `50 % ü "x".md`)
	for _, path := range []string{notes, odd} {
		require.NoError(t, os.WriteFile(path, []byte("# A\n"+path), 0o600))
	}
	said := u.works("files", "add", "mine", notes, odd, "--note", "the new handbook")
	require.Contains(t, said, "notes.md, ")
	require.Contains(t, said, "2 files are uploaded; connector 1 is synced, and `echomind files list 1` tells what has come of them\n")
	require.Equal(t, "true the new handbook", u.row(`SELECT (SELECT trigger_requested_at IS NOT NULL FROM connectors WHERE id = 1) || ' ' || note FROM audit WHERE action = 'files.upload' LIMIT 1`))
	require.Regexp(t, `(?m)^notes.md +\d+ B +\S+ +waiting +- +user 7 +[0-9a-f]{64}$`, u.works("files", "list", "1", "-o", "wide"))

	u.refused(2, "is a folder; name its files, such as ", "files", "add", "mine", t.TempDir())
	u.refused(2, "no such file", "files", "add", "mine", notes, notes+"x")
	u.refused(2, "has the name of "+notes+", in whose place it would be", "files", "add", "mine", notes, notes)
	u.refused(2, "must be a file", "files", "add", "mine", os.DevNull)
	u.refused(2, "needs a CONNECTOR", "files", "add", "mine")
	u.refused(1, `there is no connector "nobody"`, "files", "add", "nobody", notes)
	u.refused(1, "there is no connector 99", "files", "add", "99", notes)
	u.refused(1, "there is no connector 99", "files", "list", "99")
	u.refused(1, "upload to connector 2: 409 ", "files", "add", "other", notes)
	require.NoError(t, os.WriteFile(odd, []byte("\x7fELF\x02\x01\x01"), 0o600))
	u.refused(1, "upload to connector 1: 415 ", "files", "add", "mine", odd)

	u.refused(2, "the files are lost for good; add --yes if you mean it", "files", "delete", "mine", "notes.md")
	gone := u.through("files", "delete", "mine", `50 % ü "x".md`, "nothing.md", "--yes")
	require.Equal(t, output{"1 file is deleted; connector 1 is synced without them\n", "echomind: connector 1 has no file \"nothing.md\" that you may delete; `echomind files list 1` shows those there are\n", 1}, gone)
	require.Equal(t, "notes.md", told[[]client.File](u, "files", "list", "mine")[0].Name)
}

// A server takes what stands behind the last backslash for the name, as some browsers send whole paths.
func TestAFileWithABackslashInItsNameReplacesNoOther(t *testing.T) {
	if filepath.Separator == '\\' {
		t.Skip("no name has a backslash in it here")
	}
	u := newTerminal(t).fromAway(func(c *api.Config) { c.Uploads.URL = "file://" + t.TempDir() })
	u.signedIn(u.token(7, identity.User))
	u.works("connectors", "add", "--name", "mine", "--type", "file", "--config", `{"url":"upload:"}`, "--refresh", "manual")
	from := t.TempDir()
	notes, old := filepath.Join(from, "notes.md"), filepath.Join(from, `old\notes.md`)
	require.NoError(t, os.WriteFile(notes, []byte("# New"), 0o600))
	require.NoError(t, os.WriteFile(old, []byte("# Old, and longer"), 0o600))
	u.works("files", "add", "mine", notes)
	u.refused(2, "rename it", "files", "add", "mine", old)
	require.EqualValues(t, 5, told[[]client.File](u, "files", "list", "mine")[0].Bytes)
}

func TestMoreFilesThanOneRequestTakesAreUploadedWithoutBeingInMemory(t *testing.T) {
	u := newTerminal(t).fromAway(func(c *api.Config) { c.Uploads.URL = "file://" + t.TempDir() })
	u.signedIn(u.token(7, identity.User))
	u.works("connectors", "add", "--name", "mine", "--type", "file", "--config", `{"url":"upload:", "max_file_bytes": 33554432}`, "--refresh", "manual")
	from := t.TempDir()
	args := []string{"files", "add", "mine"}
	for i := range 101 {
		path := filepath.Join(from, fmt.Sprintf("%03d.md", i))
		require.NoError(t, os.WriteFile(path, []byte("# "+path), 0o600))
		args = append(args, path)
	}
	large := make([]byte, 8<<20)
	_, _ = rand.Read(large)
	for i, b := range large {
		large[i] = 'a' + b%26
	}
	require.NoError(t, os.WriteFile(filepath.Join(from, "050.md"), large, 0o600))
	done := told[struct{ Files []client.FileTaken }](u, args...)
	require.Len(t, done.Files, 101)
	require.Equal(t, "2", u.row(`SELECT count(*)::text FROM audit WHERE action = 'connectors.sync'`), "one sync for each request")
	require.Len(t, told[[]client.File](u, "files", "list", "mine"), 101)

	require.NoError(t, os.WriteFile(filepath.Join(from, "100.md"), nil, 0o600))
	broken := u.through(args...)
	require.Equal(t, 1, broken.code)
	require.Contains(t, broken.stderr, "100 of 101 files are uploaded, the rest is not, from "+args[103]+" on: upload to connector 1: 422 ")
	require.Contains(t, broken.stdout, "100 files are uploaded; ")
}
