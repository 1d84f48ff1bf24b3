package page

import (
	"bufio"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/connect"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/testonly/movestest"
)

// soon is how long something may take that a busy machine does sooner or later.
const soon = 3 * time.Minute

// run is a stage on a real `echomind run`, with a folder that its file sources may read.
type run struct {
	*stage
	folder string
	// scripts: the browser runs those of the page.
	scripts bool
}

var link = regexp.MustCompile(`http://[^ ]+/sign-in\?code=[^ ]+`)

// start starts `echomind run`, and opens the link that it prints.
func start(t *testing.T, scripts bool) *run {
	t.Helper()
	program := os.Getenv("PAGE_ECHOMIND")
	require.NotEmpty(t, program, "PAGE_ECHOMIND is the path of the program echomind; make test-page builds it")
	r := &run{stage: &stage{T: t}, folder: t.TempDir(), scripts: scripts}
	data := filepath.Join(t.TempDir(), "data")
	command := exec.CommandContext(t.Context(), program, "run", "--file-roots", r.folder)
	command.Env = append(os.Environ(), "ECHOMIND_DATA_DIR="+data, "API_ADDR=127.0.0.1:0", "HTTP_ADDR=", "XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir(), "XDG_RUNTIME_DIR="+t.TempDir())
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = time.Minute
	said, err := command.StdoutPipe()
	require.NoError(t, err)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	command.Stderr = log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Wait() // its context has ended, which stops it
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Log(string(text[max(0, len(text)-8000):]))
		}
		_ = log.Close()
	})
	found := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(said); lines.Scan(); {
			if at := link.FindString(lines.Text()); at != "" {
				found <- at
			}
		}
		close(found)
	}()
	var first string
	select {
	case first = <-found:
	case <-time.After(soon):
	}
	require.NotEmpty(t, first, "it prints a link that signs in")
	at, err := url.Parse(first)
	require.NoError(t, err)
	r.url = "http://" + at.Host
	info, err := devstack.Discover(data)
	require.NoError(t, err)
	r.conn, err = pgx.Connect(t.Context(), info.DatabaseURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close(context.WithoutCancel(t.Context())) })
	broker, js, err := connect.Once(info.NATSURL, config.NATSAccess{})
	require.NoError(t, err)
	t.Cleanup(broker.Close)
	r.js = js
	r.open()
	if !scripts {
		_, err := chromedp.Call(r.browser, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		require.NoError(t, err)
	}
	r.visit(at.RequestURI())
	require.Contains(t, r.text(".who"), "superadmin")
	return r
}

// write writes a file of the folder.
func (r *run) write(name, text string) {
	r.Helper()
	require.NoError(r, os.WriteFile(filepath.Join(r.folder, name), []byte(text), 0o600))
}

// click clicks something that leads to another page, or to the same one anew, and waits for what that has.
func (r *run) click(selector, then string) {
	r.Helper()
	_, err := chromedp.Run(r.browser, chromedp.Evaluate[bool](`window.before = true`))
	require.NoError(r, err)
	r.do(chromedp.Click(chromedp.CSS(selector)))
	r.await("the page that "+selector+" leads to", func() bool {
		there, err := chromedp.Run(r.browser, chromedp.Evaluate[bool](`!window.before && document.readyState === "complete"`))
		return err == nil && there // while a page goes, it answers nothing
	})
	r.do(chromedp.WaitVisible(chromedp.CSS(then)))
}

// await waits for a fact.
func (r *run) await(what string, fact func() bool) {
	r.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(soon); !fact(); <-again.C {
		require.True(r, time.Now().Before(until), "it never comes: %s", what)
	}
}

// fill types into fields of a form.
func (r *run) fill(form string, fields ...string) {
	r.Helper()
	for i := 0; i+1 < len(fields); i += 2 {
		r.do(chromedp.SendKeys(chromedp.CSS(form+` [name="`+fields[i]+`"]`), fields[i+1]))
	}
}

// shows waits until the page that is open shows a text: by itself where scripts run and it is live, else once it is opened anew.
func (r *run) shows(live bool, text string) {
	r.Helper()
	r.await(text, func() bool {
		if !live || !r.scripts {
			r.do(chromedp.Reload(), chromedp.WaitVisible(chromedp.CSS("main")))
		}
		return strings.Contains(r.text("main"), text)
	})
}

// path is that of the page that is open.
func (r *run) path() string {
	r.Helper()
	at, err := chromedp.Run(r.browser, chromedp.Location())
	require.NoError(r, err)
	u, err := url.Parse(at)
	require.NoError(r, err)
	return u.Path
}

// addFolder adds a source of the folder, and ends on its page.
func (r *run) addFolder(name string) (path string) {
	r.Helper()
	r.visit("/")
	r.click(`a[href="/sources/add"]`, `a[href="/sources/add?kind=file"]`)
	r.click(`a[href="/sources/add?kind=file"]`, `input[name="url"]`)
	r.fill("form.edit", "name", name, "url", "file://"+r.folder)
	r.click("form.edit button", ".said")
	require.Contains(r, r.text("main"), "The source is added.")
	return r.path()
}

// A user's day: they add a source, see it sync, search it, see why it is stale, and have a document fetched again that failed.
func (r *run) usersDay() {
	r.Helper()
	r.write("lease.md", "# Leases\n\nA lease of a quetzal ends after 30 seconds.")
	r.write("report.pdf", "%PDF-1.7\nthis ends too early")
	source := r.addFolder("Handbook")
	r.click(`form[action$="/sync"] button`, ".said")
	r.shows(true, "Completed")

	r.shows(false, "report.pdf")
	r.visit(source + "/documents?status=failed")
	require.Contains(r, r.text("main"), "report.pdf")
	r.write("report.pdf", "A capybara swims in the river.")
	r.click(`form.actions[action$="/sync"] button`, ".said")
	r.shows(false, "It has no document that matches")

	r.visit("/search")
	r.fill("form.search", "q", "capybara")
	r.click("form.search button", ".hits")
	require.Contains(r, r.text(".hits"), "capybara")
	require.Contains(r, r.text(".hits"), "Handbook")

	movestest.Force(r, r.conn, `UPDATE connectors SET fresh_within_minutes = 1, last_sync_at = clock_timestamp() - interval '2 hours' WHERE name = 'Handbook'`)
	r.visit("/?late=true")
	require.Contains(r, r.text("main"), "Handbook")
	r.click(`a.name[href="`+source+`"]`, "#h-why")
	require.Contains(r, r.text(".facts"), "Late")
	require.Contains(r, r.text("main"), "Who can do something")

	r.click(`form[action$="/disable"] button`, ".said")
	require.Contains(r, r.text("main"), "The source is disabled.")
	r.click(`form[action$="/enable"] button`, ".said")
	require.Contains(r, r.text("main"), "The source is enabled.")
}

// An administrator's day: they look at what waits and runs, replay dead letters, make a token and revoke it, set a limit, and write a calendar and a window.
func (r *run) administratorsDay() {
	r.Helper()
	source := r.addFolder("Archive")
	id, err := strconv.ParseInt(strings.TrimPrefix(source, "/sources/"), 10, 32)
	require.NoError(r, err)
	for range 2 {
		msg := nats.NewMsg("dlq." + topology.DocumentSubject)
		msg.Data = aboutDocument(r, int32(id))
		msg.Header.Set(topology.HeaderReason, "https://a.example/1 answered 503")
		_, err := r.js.PublishMsg(r.Context(), msg)
		require.NoError(r, err)
	}
	r.visit("/queue")
	require.Contains(r, r.text("main"), "What waits to run")
	r.visit("/problems")
	r.click(`main a[href="/system"]`, "#h-services")
	require.Contains(r, r.text("main"), "A scheduler is connected")
	r.visit("/problems")
	r.click(`main a[href="/deadletters/reasons"]`, `form[action="/deadletters/replay"]`)
	require.Contains(r, r.text("main"), "… answered 503")
	r.click(`form[action="/deadletters/replay"] button`, ".said")
	require.Contains(r, r.text(".said"), "2 letters")
	r.visit("/deadletters/reasons")
	require.Contains(r, r.text("main"), "There is no dead letter")

	r.visit("/administration")
	r.fill(`form[action="/tokens"]`, "name", "dashboard")
	r.click(`form[action="/tokens"] button`, ".secret")
	require.Contains(r, r.text(".secret"), "ems_")
	r.visit("/administration")
	r.fill(`form[action="/limits/owners"]`, "user_id", "7", "max_connectors", "5", "note", "as agreed")
	r.click(`form[action="/limits/owners"] button`, ".said")
	require.Contains(r, r.text("main"), "user 7")

	r.click(`main a[href="/calendars"]`, `form[action="/calendars"]`)
	r.fill(`form[action="/calendars"]`, "name", "holidays", "time_zone", "Europe/Berlin", "entry_name", "New year", "start", "2027-01-01", "rule", "FREQ=YEARLY")
	r.click(`form[action="/calendars"] button`, "#h-entries")
	require.Contains(r, r.text("main"), "The calendar was written.")
	r.fill(`form[action="/calendars/holidays/add"]`, "entry_name", "Move", "start", "2027-03-01")
	r.click(`form[action="/calendars/holidays/add"] button`, ".said")
	require.Contains(r, r.text("main"), "2027-03-01")
	r.visit("/blackouts")
	r.fill(`form[action="/blackouts"]`, "name", "quiet", "calendar", "holidays")
	r.click(`form[action="/blackouts"] button`, ".said")
	require.Contains(r, r.text("main"), "Does not hold now")
	r.click(`button[formaction="/blackouts/quiet/delete"]`, `form[action="/blackouts"]`)
	require.Contains(r, r.text("main"), "The window was deleted.")
	r.visit("/calendars/holidays")
	r.click(`form[action="/calendars/holidays/delete"] button`, `form[action="/calendars"]`)
	require.Contains(r, r.text("main"), "The calendar was deleted.")
	r.visit("/audit")
	for _, action := range []string{"calendars.delete", "blackouts.delete", "deadletters.replay", "tokens.create"} {
		require.Contains(r, r.text("main"), action)
	}
}

func TestTheDaysOfAUserAndOfAnAdministratorOnARealStack(t *testing.T) {
	r := start(t, true)
	r.usersDay()
	r.administratorsDay()
	r.nothingWrong()
}

func TestTheSameDaysWithoutScripts(t *testing.T) {
	r := start(t, false)
	r.usersDay()
	r.administratorsDay()
	r.nothingWrong()
}
