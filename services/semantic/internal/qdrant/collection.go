package qdrant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

// Payload is what a point carries beside its vector.
type Payload struct {
	ConnectorID int32 `json:"connector_id"`
	DocumentID  int64 `json:"document_id"`
	// Version names what the document showed: all its points of another are outdated.
	Version string `json:"version"`
	// No is the chunk's place in the document.
	No int32 `json:"no"`
	// Turn numbers the writes: a later one has a larger number.
	Turn int64 `json:"turn"`
	// Words are the chunk's, each once.
	Words []string `json:"words,omitempty"`
}

// Point is one chunk. Its vector has length 1, or 0.
type Point struct {
	ID      uuid.UUID `json:"id"`
	Vector  []float32 `json:"vector"`
	Payload Payload   `json:"payload"`
}

// Hit is a point near a query. Score is the cosine of the angle between their vectors.
type Hit struct {
	Score   float32
	Payload Payload
}

// The fields that points are found by; without an index Qdrant looks at every point.
var indexed = map[string]string{"connector_id": "integer", "document_id": "integer", "version": "keyword", "words": "keyword", "turn": "integer"}

type vectors struct {
	Size     int    `json:"size"`
	Distance string `json:"distance"`
}

// Check asks for the collection. It returns ErrMissing where there is none, and an error where its vectors are others.
func (c *Collection) Check(ctx context.Context, dimensions int) error {
	var info struct {
		Config struct {
			Params struct {
				Vectors vectors `json:"vectors"`
			} `json:"params"`
		} `json:"config"`
	}
	if err := c.call(ctx, "check", http.MethodGet, "", nil, &info); err != nil {
		return err
	}
	if got, want := info.Config.Params.Vectors, (vectors{dimensions, "Dot"}); got != want {
		return fmt.Errorf("qdrant: check %s: its vectors are %+v instead of %+v: set QDRANT_COLLECTION to a name of this database's own",
			c.Name, got, want)
	}
	return nil
}

// Create makes the collection, or completes what an earlier call began.
func (c *Collection) Create(ctx context.Context, dimensions int) error {
	type create struct {
		Vectors       vectors `json:"vectors"`
		OnDiskPayload bool    `json:"on_disk_payload"`
	}
	err := c.call(ctx, "create", http.MethodPut, "", create{vectors{dimensions, "Dot"}, true}, nil)
	if err != nil && !errors.Is(err, errExists) {
		return err
	}
	type index struct {
		FieldName   string `json:"field_name"`
		FieldSchema string `json:"field_schema"`
	}
	for name, kind := range indexed {
		if err := c.call(ctx, "index", http.MethodPut, "/index?wait=true", index{name, kind}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Upsert writes points; they can be found when it returns.
func (c *Collection) Upsert(ctx context.Context, points []Point) error {
	type upsert struct {
		Points []Point `json:"points"`
	}
	return c.update(ctx, "upsert", http.MethodPut, "/points?wait=true", upsert{points})
}

// update is a call whose answer says whether it is carried out.
func (c *Collection) update(ctx context.Context, operation, method, path string, body any) error {
	var result struct {
		Status string `json:"status"`
	}
	if err := c.call(ctx, operation, method, path, body, &result); err != nil {
		return err
	}
	if result.Status != "completed" {
		return fmt.Errorf("qdrant: %s %s: it is %q and not completed", operation, c.Name, result.Status)
	}
	return nil
}

type anyOf struct {
	Any any `json:"any"`
}

type below struct {
	LT int64 `json:"lt"`
}

type condition struct {
	Key   string `json:"key"`
	Match *anyOf `json:"match,omitempty"`
	Range *below `json:"range,omitempty"`
}

func isAnyOf(key string, values any) condition { return condition{Key: key, Match: &anyOf{values}} }

type filter struct {
	Must    []condition `json:"must,omitempty"`
	MustNot []condition `json:"must_not,omitempty"`
}

// KeepOnly removes the points of documents that are of none of the versions and were written before a turn. Carried out
// late, after the call was given up, it does no harm to what was written since.
func (c *Collection) KeepOnly(ctx context.Context, turn int64, documents []int64, versions []string) error {
	others := filter{Must: []condition{isAnyOf("document_id", documents), {Key: "turn", Range: &below{turn}}}}
	if len(versions) > 0 {
		others.MustNot = []condition{isAnyOf("version", versions)}
	}
	type remove struct {
		Filter filter `json:"filter"`
	}
	return c.update(ctx, "remove", http.MethodPost, "/points/delete?wait=true", remove{others})
}

// Nearest returns the hits of connectors nearest to a vector, up to limit, and for each word up to wordLimit of those that
// hold it; none twice.
func (c *Collection) Nearest(
	ctx context.Context, vector []float32, connectors []int32, words []string, limit, wordLimit int,
) ([]Hit, error) {
	type query struct {
		Query       []float32 `json:"query"`
		Filter      filter    `json:"filter"`
		Limit       int       `json:"limit"`
		WithPayload []string  `json:"with_payload"`
	}
	type batch struct {
		Searches []query `json:"searches"`
	}
	readable := isAnyOf("connector_id", connectors)
	payload := []string{"connector_id", "document_id", "version", "no"}
	searches := batch{[]query{{vector, filter{Must: []condition{readable}}, limit, payload}}}
	for _, word := range words {
		holding := filter{Must: []condition{readable, isAnyOf("words", []string{word})}}
		searches.Searches = append(searches.Searches, query{vector, holding, wordLimit, payload})
	}
	var answers []struct {
		Points []struct {
			ID      json.RawMessage `json:"id"` // a UUID, or a number
			Score   float32         `json:"score"`
			Payload Payload         `json:"payload"`
		} `json:"points"`
	}
	if err := c.call(ctx, "query", http.MethodPost, "/points/query/batch", searches, &answers); err != nil {
		return nil, err
	}
	var hits []Hit
	seen := map[string]bool{}
	for _, answer := range answers {
		for _, p := range answer.Points {
			if id := string(p.ID); !seen[id] {
				seen[id] = true
				hits = append(hits, Hit{p.Score, p.Payload})
			}
		}
	}
	return hits, nil
}
