package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/echomind/sync/internal/devstack/loopback"
)

const qdrantKey = "chaos"

// ErrMissing says that Qdrant has no such collection.
var ErrMissing = errors.New("there is no such collection")

// Qdrant is semantic's stand-in for one, in a process of its own. It keeps everything in memory: killed, it comes back
// empty.
type Qdrant struct {
	server
	addr string
}

func newQdrant(path string, log io.Writer) (*Qdrant, error) {
	port, err := loopback.Port(0)
	if err != nil {
		return nil, fmt.Errorf("find a port for Qdrant: %w", err)
	}
	env := []string{"QDRANT__SERVICE__HTTP_PORT=" + strconv.Itoa(port), "QDRANT__SERVICE__API_KEY=" + qdrantKey}
	return &Qdrant{server: server{name: "qdrant", path: path, env: env, log: log}, addr: loopback.Address(port)}, nil
}

// Start starts the server and returns when it answers.
func (q *Qdrant) Start(ctx context.Context) error {
	return q.start(ctx, func(ctx context.Context) error {
		err := q.Ask(ctx, http.MethodGet, "/collections/none", nil, nil)
		if errors.Is(err, ErrMissing) {
			return nil
		}
		return err
	})
}

// told is what a program needs to know in order to use it.
func (q *Qdrant) told() []string {
	return []string{"QDRANT_URL=http://" + q.addr, "QDRANT_API_KEY=" + qdrantKey}
}

// Ask sends a request and reads the result of its answer into result, unless that is nil.
func (q *Qdrant) Ask(ctx context.Context, method, path string, body, result any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode for Qdrant: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+q.addr+path, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	request.Header.Set("api-key", qdrantKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return ErrMissing
	default:
		return fmt.Errorf("qdrant says %s to %s", response.Status, path)
	}
	answer := struct {
		Result any `json:"result"`
	}{result}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read Qdrant's answer to %s: %w", path, err)
	}
	return nil
}
