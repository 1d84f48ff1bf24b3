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
	"github.com/echomind/sync/internal/deadline"
)

const (
	// callTimeout bounds one request with its answer; one that makes a collection, on all peers of a cluster, has longer.
	callTimeout, createTimeout = 10 * time.Second, 60 * time.Second
	// maxAnswer bounds an answer, in bytes; the largest, of 400 hits, has about 100 KiB.
	maxAnswer = 8 << 20
	// maxReason is how much of what Qdrant says about an error is passed on, in bytes.
	maxReason = 300
)

var (
	// ErrMissing says that the collection is not there, by Qdrant's own word.
	ErrMissing = errors.New("the collection does not exist")
	// errExists says that it is.
	errExists = errors.New("the collection exists already")
)

// Client talks to one Qdrant. It is safe for concurrent use, holds no connection between calls, and asks once: callers
// repeat.
type Client struct {
	base string
	key  string
	http http.Client
}

// New makes a client; it connects to nothing.
func New(cfg config.Qdrant) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return &Client{
		key: cfg.APIKey, base: strings.TrimRight(cfg.URL, "/") + "/collections/",
		http: http.Client{
			Transport: transport,
			// The key is for this server alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Collection is one of its collections.
type Collection struct {
	*Client
	// Name is the collection's.
	Name string
}

// Collection names one; it may be missing. Names are checked by the caller.
func (c *Client) Collection(name string) *Collection { return &Collection{c, name} }

// call sends a request and reads the result of its answer into result, unless that is nil. Its errors name the operation
// and never the key.
func (c *Collection) call(ctx context.Context, operation, method, path string, body, result any) error {
	timeout := callTimeout
	if operation == "create" || operation == "index" {
		timeout = createTimeout
	}
	err := deadline.Do(ctx, "qdrant."+operation, timeout, func(ctx context.Context) error {
		return c.exchange(ctx, method, c.base+url.PathEscape(c.Name)+path, body, result)
	})
	if err != nil {
		return fmt.Errorf("qdrant: %s %s: %w", operation, c.Name, err)
	}
	return nil
}

func (c *Client) exchange(ctx context.Context, method, where string, body, result any) error {
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
	itself := json.Unmarshal(answer, &said) == nil && said.Status.Error != ""
	if itself {
		reason = said.Status.Error
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	switch {
	case status == http.StatusNotFound && itself:
		return ErrMissing
	case status == http.StatusConflict && itself:
		return errExists
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("refused with status %d: check QDRANT_API_KEY; it said %q", status, reason)
	default:
		return fmt.Errorf("status %d: %q", status, reason)
	}
}
