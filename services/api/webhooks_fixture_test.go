package api_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api"
	"github.com/echomind/sync/services/api/internal/webhooks"
	"github.com/echomind/sync/testonly/movestest"
	"github.com/echomind/sync/testonly/testkit"
)

// telling is an API whose webhooks may lead to this machine, and what tells them, which a test has look and send.
type telling struct {
	*world
	key     string
	service *webhooks.Service
}

func newTelling(t *testing.T) *telling {
	t.Helper()
	w := &telling{}
	w.world = newWorld(t, func(c *api.Config) {
		w.key, c.WebhookAllowCIDRs = c.SecretsKey, []string{"127.0.0.0/8"}
	})
	w.service = w.teller(w.key, "127.0.0.0/8")
	return w
}

// teller is what a replica runs.
func (w *telling) teller(key string, allow ...string) *webhooks.Service {
	w.Helper()
	ring, err := secret.Parse(key)
	require.NoError(w, err)
	pool, err := postgres.Open(w.Context(), w.url, "echomind-api", 2, postgres.As("echomind_api"))
	require.NoError(w, err)
	w.Cleanup(pool.Close)
	cfg := webhooks.Config{MostFailing: 120 * time.Hour, PageURL: "https://sync.example"}
	for _, text := range allow {
		cfg.Allow = append(cfg.Allow, netip.MustParsePrefix(text))
	}
	s := webhooks.New(cfg, pool, ring, prometheus.NewRegistry(), testkit.Logger(w.T))
	w.Cleanup(s.Close)
	return s
}

// look has every webhook looked at, as if its time had come.
func (w *telling) look() {
	w.Helper()
	w.exec(`UPDATE webhook_looks SET next_at = '-infinity'`)
	w.exec(`UPDATE webhook_turns SET look_at = clock_timestamp() WHERE look_at IS NOT NULL`)
	require.NoError(w, w.service.Look(w.Context()))
}

// hurry has everything due that waits.
func (w *telling) hurry() {
	w.Helper()
	w.exec(`UPDATE webhook_deliveries SET next_at = clock_timestamp() WHERE next_at IS NOT NULL`)
	w.exec(`UPDATE webhook_turns SET send_at = clock_timestamp(), rest_until = '-infinity' WHERE send_at IS NOT NULL`)
}

// send sends what waits, and waits until it is sent.
func (w *telling) send() {
	w.Helper()
	w.hurry()
	require.NoError(w, w.service.Send(w.Context()))
	w.service.Wait()
}

// tell looks and sends.
func (w *telling) tell() {
	w.Helper()
	w.look()
	w.send()
}

// source adds a connector of user 7 that is well.
func (w *telling) source() int32 {
	w.Helper()
	id := one[int32](w.world, `INSERT INTO connectors (name, type, user_id) VALUES ('the board', 'web', 7) RETURNING id`)
	w.is(id, "ACTIVE")
	return id
}

// is has a connector stand as its moves would leave it.
func (w *telling) is(id int32, status string) {
	w.Helper()
	failures := map[string]int{"ERROR": 1}[status]
	movestest.Force(w, w.conn, `UPDATE connectors SET status = $2, failure_count = $3, next_sync_at = NULL, due_reason = NULL, run_id = NULL,
		status_message = CASE WHEN $3 > 0 THEN 'the site does not answer' END, last_sync_at = CASE WHEN $2 = 'ACTIVE' THEN clock_timestamp() ELSE last_sync_at END WHERE id = $1`, id, status, failures)
}

// message is what a receiver was sent.
type message struct {
	header http.Header
	raw    string
	body   struct {
		Type string
		Data struct {
			ConnectorID               int32 `json:"connector_id"`
			Name, State, Message, URL string
			ConnectorType             string `json:"connector_type"`
		}
	}
}

func (m message) id() string { return m.header.Get("webhook-id") }

// receiver is somebody's server, which keeps what it is sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	got    []message
}

func (w *telling) receiver() *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		text, _ := io.ReadAll(q.Body)
		m := message{header: q.Header.Clone(), raw: string(text)}
		_ = json.Unmarshal(text, &m.body)
		r.mu.Lock()
		r.got = append(r.got, m)
		answer := r.answer
		r.mu.Unlock()
		if answer != nil {
			answer(rw, q)
		}
	}))
	w.Cleanup(r.Close)
	return r
}

// answers has it answer so from now on.
func (r *receiver) answers(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

func (r *receiver) fails(status int, headers ...string) {
	r.answers(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "sorry, password=hunter2\nsecond line")
	})
}

// took is what has come since it was asked last.
func (r *receiver) took() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

func (r *receiver) types() (all []string) {
	for _, m := range r.took() {
		all = append(all, m.body.Type)
	}
	return all
}

// webhook is one that was made.
type webhook struct {
	caller
	id     int32
	secret string
	path   string
}

// hook makes a webhook of somebody's.
func (c caller) hook(body map[string]any) webhook {
	c.Helper()
	made := c.do("POST", "/webhooks", body)
	require.Equal(c, http.StatusCreated, made.status, made.text)
	id := int32(made.body["id"].(float64))
	return webhook{c, id, made.body["secret"].(string), fmt.Sprintf("/webhooks/%d", id)}
}

func (h webhook) deliveries() (all []map[string]any) {
	h.Helper()
	for _, d := range h.get(h.path + "/deliveries")["deliveries"].([]any) {
		all = append(all, d.(map[string]any))
	}
	return all
}

// carriesSignature says whether a message has a signature by a secret, as the specification has it.
func carriesSignature(m message, secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", m.id(), m.header.Get("webhook-timestamp"), m.raw)
	for _, signature := range strings.Fields(m.header.Get("webhook-signature")) {
		if signature == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			return true
		}
	}
	return false
}

// begun is a context that ends when the test does, or when it is told to.
func (w *telling) begun() (context.Context, context.CancelFunc) {
	return context.WithCancel(w.Context())
}

// mine is user 7, whose connectors source adds.
func (w *telling) mine() caller { return w.as(7, identity.User) }
