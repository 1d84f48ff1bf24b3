package program

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAServiceAnswersWhatItIsAskedOnItsCommandLine(t *testing.T) {
	for _, c := range []struct {
		args        []string
		code        int
		done        bool
		says, warns string
	}{
		{nil, 0, false, "", ""},
		{[]string{"--version"}, 0, true, "version ", ""},
		{[]string{"--help"}, 0, true, "docs/configuration.md", ""},
		{[]string{"-h"}, 0, true, "--version", ""},
		{[]string{"--port", "80"}, 2, true, "", `was given "--port"`},
	} {
		var out, problems bytes.Buffer
		code, done := answer(c.args, &out, &problems)
		if code != c.code || done != c.done {
			t.Errorf("%q: %d, %v", c.args, code, done)
		}
		if !strings.Contains(out.String(), c.says) || c.says == "" && out.Len() > 0 {
			t.Errorf("%q says %q", c.args, &out)
		}
		if !strings.Contains(problems.String(), c.warns) || c.warns == "" && problems.Len() > 0 {
			t.Errorf("%q warns %q", c.args, &problems)
		}
	}
}

func TestAProgramAsksItsLikeForItsHealth(t *testing.T) {
	ready := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(ready)
			_, _ = w.Write([]byte(`{"problems":{"scheduler.nats":"NATS is RECONNECTING"}}`))
		}
	}))
	defer server.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	for _, c := range []struct {
		address string
		ready   int
		args    []string
		code    int
		says    string
	}{
		{":" + port, 200, nil, 0, ""},
		{"0.0.0.0:" + port, 200, nil, 0, ""},
		{":" + port, 503, nil, 1, "NATS is RECONNECTING"},
		{":" + port, 503, []string{"--live"}, 0, ""},
		{":" + port, 200, []string{"--lively"}, 2, "--lively"},
		{"127.0.0.1:1", 200, nil, 1, "ask for /readyz"},
		{"127.0.0.1:0", 200, nil, 1, "HTTP_ADDR"},
		{"", 200, nil, 1, "HTTP_ADDR is empty, so this program serves its health nowhere"},
	} {
		t.Setenv("HTTP_ADDR", c.address)
		ready = c.ready
		var problems bytes.Buffer
		code, done := answer(append([]string{"health"}, c.args...), &bytes.Buffer{}, &problems)
		if code != c.code || !done || !strings.Contains(problems.String(), c.says) {
			t.Errorf("%+v: %d, %q", c, code, &problems)
		}
	}
}
