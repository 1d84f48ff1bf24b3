package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/echomind/sync/sdk/client"
)

func TestWhatMayPassByItselfIsToldFromWhatDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		away   bool
	}{
		"broken off": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"user_id": `))
		}, true},
		"a gateway's 502":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, true},
		"a gateway's 404":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, false},
		"the API's 503":    {func(w http.ResponseWriter) { refuse(w, http.StatusServiceUnavailable, "2") }, true},
		"somebody's lock":  {func(w http.ResponseWriter) { refuse(w, http.StatusConflict, "1") }, true},
		"another conflict": {func(w http.ResponseWriter) { refuse(w, http.StatusConflict, "") }, false},
		"a refusal":        {func(w http.ResponseWriter) { refuse(w, http.StatusForbidden, "") }, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.answer(w) }))
		t.Cleanup(server.Close)
		api, err := client.New(server.URL, "ems_1_x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.MeWithResponse(t.Context()); err == nil || client.IsAway(err) != c.away {
			t.Errorf("%s: %v", name, err)
		}
		server.Close()
		if _, err := api.MeWithResponse(t.Context()); !client.IsAway(err) {
			t.Errorf("nobody there: %v", err)
		}
	}
}

func refuse(w http.ResponseWriter, status int, retry string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if retry != "" {
		w.Header().Set("Retry-After", retry)
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"title": "x"}`))
}
