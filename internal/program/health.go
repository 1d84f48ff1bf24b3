package program

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/echomind/sync/internal/config"
)

const (
	// healthTimeout is longer than all checks of /readyz.
	healthTimeout = 4 * time.Second
	maxAnswer     = 64 << 10
)

// health checks a running program of this machine, for probes in images that contain nothing but the program. It returns 0 when
// the program is ready (or, with --live, alive), else 1 with a message.
func health(args []string, problems io.Writer) int {
	path := "/readyz"
	switch {
	case len(args) == 1 && args[0] == "--live":
		path = "/healthz"
	case len(args) > 0:
		_, _ = fmt.Fprintf(problems, "health takes --live or nothing, and was given %q\n", args)
		return exitUsage
	}
	var at config.HTTP
	if err := config.Load(&at); err != nil {
		_, _ = fmt.Fprintln(problems, err)
		return exitUsage
	}
	if at.HTTPAddr == "" {
		_, _ = fmt.Fprintln(problems, "HTTP_ADDR is empty, so this program serves its health nowhere: set HTTP_ADDR, or ask for no health")
		return 1
	}
	if err := ask(at.HTTPAddr, path); err != nil {
		_, _ = fmt.Fprintln(problems, err)
		return 1
	}
	return 0
}

func ask(address, path string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" {
		return fmt.Errorf("HTTP_ADDR=%q: it must be an address with a port, such as :8080, to be asked for health", address)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+path, nil)
	if err != nil {
		return fmt.Errorf("HTTP_ADDR=%q: %w", address, err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request) // no proxy
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", path, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
