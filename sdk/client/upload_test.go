package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/echomind/sync/sdk/client"
)

// paced gives a piece with each tick.
type paced struct {
	pieces int
	ticks  <-chan time.Time
}

func (p *paced) Read(into []byte) (int, error) {
	if p.pieces == 0 {
		return 0, io.EOF
	}
	<-p.ticks
	p.pieces--
	return copy(into, "piece"), nil
}

func TestAnUploadGoesOnWhileSomethingOfItIsSent(t *testing.T) {
	const patience = 2 * time.Second
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte(`{"connector_id": ` + strings.Repeat("1", strings.Count(string(sent), "piece")) + `}`))
	}))
	t.Cleanup(server.Close)
	api, err := client.New(server.URL, "ems_1_x")
	if err != nil {
		t.Fatal(err)
	}
	client.WithPatience(api, patience)
	pace := time.NewTicker(patience / 4)
	defer pace.Stop()
	answer, err := api.FilesUploadWithBodyWithResponse(t.Context(), 1, "multipart/form-data; boundary=x", &paced{6, pace.C})
	if err != nil || !strings.Contains(string(answer.Body), ": 111111}") {
		t.Fatalf("longer than its patience: %v", err)
	}
}

func TestAnUploadOfWhichNothingIsTakenEnds(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(server.Close)
	defer close(ended)
	api, err := client.New(server.URL, "ems_1_x")
	if err != nil {
		t.Fatal(err)
	}
	client.WithPatience(api, 100*time.Millisecond)
	_, err = api.FilesUploadWithBodyWithResponse(t.Context(), 1, "multipart/form-data; boundary=x", strings.NewReader(strings.Repeat("x", 64<<20)))
	if err == nil || !client.IsAway(err) || !strings.Contains(err.Error(), "has not answered within 100ms") {
		t.Fatal(err)
	}
}
