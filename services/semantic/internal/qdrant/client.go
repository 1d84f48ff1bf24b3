// Package qdrant keeps points in a collection of Qdrant, by its REST API (https://api.qdrant.tech/api-reference).
package qdrant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/sdk/deadline"
)

const (
	// callTimeout bounds one request with its answer.
	callTimeout = 10 * time.Second
	// maxAnswer bounds an answer, in bytes; the largest, of 400 hits, has about 100 KiB.
	maxAnswer = 8 << 20
	// maxReason is how much of what Qdrant says about an error is passed on, in bytes.
	maxReason = 300
)

// ErrMissing says that the collection is not there.
var ErrMissing = errors.New("the collection does not exist")

// Collection is one collection of a Qdrant. It is safe for concurrent use, holds no connection between calls, and asks
// once: callers repeat.
type Collection struct {
	// Name is the collection's.
	Name string
	base string
	key  string
	http http.Client
}

// New makes a collection's client; it connects to nothing. Names are checked by the caller.
func New(cfg config.Qdrant, name string) *Collection {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return &Collection{
		Name: name, key: cfg.APIKey,
		base: strings.TrimRight(cfg.URL, "/") + "/collections/" + url.PathEscape(name),
		http: http.Client{
			Transport: transport,
			// The key is for this server alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// call sends a request and reads the result of its answer into result, unless that is nil. Its errors name the operation
// and never the key; ErrMissing is the answer 404.
func (c *Collection) call(ctx context.Context, operation, method, path string, body, result any) error {
	err := deadline.Do(ctx, "qdrant."+operation, callTimeout, func(ctx context.Context) error {
		return c.exchange(ctx, method, c.base+path, body, result)
	})
	if err != nil {
		return fmt.Errorf("qdrant: %s %s: %w", operation, c.Name, err)
	}
	return nil
}

func (c *Collection) exchange(ctx context.Context, method, where string, body, result any) error {
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, where, sent)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		request.Header.Set("api-key", c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if len(answer) > maxAnswer {
		return fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if response.StatusCode != http.StatusOK {
		return refusal(response.StatusCode, answer)
	}
	envelope := struct {
		Result any `json:"result"`
	}{result}
	if err := json.Unmarshal(answer, &envelope); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// refusal is what an answer other than 200 means: {"status": {"error": "…"}}, or anything, from who stands in between.
func refusal(status int, answer []byte) error {
	var said struct {
		Status struct {
			Error string `json:"error"`
		} `json:"status"`
	}
	reason := string(answer)
	if json.Unmarshal(answer, &said) == nil && said.Status.Error != "" {
		reason = said.Status.Error
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	switch status {
	case http.StatusNotFound:
		return ErrMissing
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("refused with status %d: check QDRANT_API_KEY; it said %q", status, reason)
	default:
		return fmt.Errorf("status %d: %q", status, reason)
	}
}
