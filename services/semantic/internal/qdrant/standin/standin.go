// Package standin answers what of Qdrant's REST API this repository uses, in memory, by comparing every point. It stands in
// for Qdrant in tests where none can be had. It is strict: what the API's description does not name, it refuses.
package standin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// Server is one Qdrant. Its zero value is ready, without a key.
type Server struct {
	// Key is what must come as api-key, where it is set.
	Key string
	// Before, where it is set, is called with each operation's name; an error of its is answered as status 503, and the
	// operation is not done. It may block.
	Before func(operation string) error

	mu          sync.Mutex
	collections map[string]*collection
}

type collection struct {
	params  json.RawMessage
	size    int
	indexes map[string]string
	points  map[string]Point
}

// Point is one that is kept.
type Point struct {
	ID      string         `json:"id"`
	Vector  []float32      `json:"vector"`
	Payload map[string]any `json:"payload"`
}

type fault struct {
	status int
	text   string
}

func (f fault) Error() string { return f.text }

func wrong(format string, args ...any) error {
	return fault{http.StatusBadRequest, "Wrong input: " + fmt.Sprintf(format, args...)}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	routes := http.NewServeMux()
	for pattern, serve := range map[string]func(name string, r *http.Request) (any, error){
		"GET /collections/{name}":                     s.info,
		"PUT /collections/{name}":                     s.create,
		"DELETE /collections/{name}":                  s.remove,
		"PUT /collections/{name}/index":               s.index,
		"PUT /collections/{name}/points":              s.upsert,
		"POST /collections/{name}/points/delete":      s.deletePoints,
		"POST /collections/{name}/points/query/batch": s.query,
	} {
		routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			result, err := s.answer(pattern, serve, r)
			w.Header().Set("Content-Type", "application/json")
			var f fault
			if errors.As(err, &f) {
				w.WriteHeader(f.status)
				_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]string{"error": f.text}, "time": 0.001})
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"result": result, "status": "ok", "time": 0.001})
		})
	}
	routes.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("healthz check passed")) })
	if s.Key != "" && r.URL.Path != "/healthz" && r.Header.Get("api-key") != s.Key {
		http.Error(w, "Invalid API key or JWT", http.StatusUnauthorized)
		return
	}
	routes.ServeHTTP(w, r)
}

func (s *Server) answer(pattern string, serve func(string, *http.Request) (any, error), r *http.Request) (any, error) {
	if s.Before != nil {
		if err := s.Before(pattern); err != nil {
			return nil, fault{http.StatusServiceUnavailable, err.Error()}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return serve(r.PathValue("name"), r)
}

func read(r *http.Request, body any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(body); err != nil {
		return fault{http.StatusUnprocessableEntity, "Json deserialize error: " + err.Error()}
	}
	return nil
}

func (s *Server) find(name string) (*collection, error) {
	c := s.collections[name]
	if c == nil {
		return nil, fault{http.StatusNotFound, fmt.Sprintf("Not found: Collection `%s` doesn't exist!", name)}
	}
	return c, nil
}

func (s *Server) info(name string, _ *http.Request) (any, error) {
	c, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"status": "green", "points_count": len(c.points), "payload_schema": maps.Clone(c.indexes),
		"config": map[string]any{"params": map[string]any{"vectors": c.params}},
	}, nil
}

func (s *Server) create(name string, r *http.Request) (any, error) {
	var body struct {
		Vectors       json.RawMessage `json:"vectors"`
		OnDiskPayload bool            `json:"on_disk_payload"`
	}
	var vectors struct {
		Size     int    `json:"size"`
		Distance string `json:"distance"`
	}
	if err := read(r, &body); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body.Vectors))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&vectors); err != nil || vectors.Size < 1 || !slices.Contains([]string{"Cosine", "Euclid", "Dot", "Manhattan"}, vectors.Distance) {
		return nil, wrong("vectors %s", body.Vectors)
	}
	if s.collections[name] != nil {
		return nil, fault{http.StatusConflict, fmt.Sprintf("Wrong input: Collection `%s` already exists!", name)}
	}
	if s.collections == nil {
		s.collections = map[string]*collection{}
	}
	s.collections[name] = &collection{params: body.Vectors, size: vectors.Size, indexes: map[string]string{}, points: map[string]Point{}}
	return true, nil
}

func (s *Server) remove(name string, _ *http.Request) (any, error) {
	found := s.collections[name] != nil
	delete(s.collections, name)
	return found, nil
}

func (s *Server) index(name string, r *http.Request) (any, error) {
	var body struct {
		FieldName   string `json:"field_name"`
		FieldSchema string `json:"field_schema"`
	}
	c, err := s.find(name)
	if err == nil {
		err = read(r, &body)
	}
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"keyword", "integer", "float", "geo", "text", "bool", "datetime", "uuid"}, body.FieldSchema) {
		return nil, wrong("field_schema %q", body.FieldSchema)
	}
	c.indexes[body.FieldName] = body.FieldSchema
	return map[string]any{"operation_id": 1, "status": "completed"}, nil
}

func (s *Server) upsert(name string, r *http.Request) (any, error) {
	var body struct {
		Points []Point `json:"points"`
	}
	c, err := s.find(name)
	if err == nil {
		err = read(r, &body)
	}
	if err != nil {
		return nil, err
	}
	if len(body.Points) == 0 {
		return nil, wrong("Empty update request")
	}
	for _, p := range body.Points {
		if len(p.Vector) != c.size {
			return nil, wrong("Vector dimension error: expected dim: %d, got %d", c.size, len(p.Vector))
		}
		c.points[p.ID] = p
	}
	return map[string]any{"operation_id": 2, "status": "completed"}, nil
}

func (s *Server) deletePoints(name string, r *http.Request) (any, error) {
	var body struct {
		Filter filter `json:"filter"`
	}
	c, err := s.find(name)
	if err == nil {
		err = read(r, &body)
	}
	if err != nil {
		return nil, err
	}
	for id, p := range c.points {
		if body.Filter.passes(p.Payload) {
			delete(c.points, id)
		}
	}
	return map[string]any{"operation_id": 3, "status": "completed"}, nil
}

func (s *Server) query(name string, r *http.Request) (any, error) {
	var body struct {
		Searches []struct {
			Query       []float32 `json:"query"`
			Filter      filter    `json:"filter"`
			Limit       int       `json:"limit"`
			WithPayload []string  `json:"with_payload"`
		} `json:"searches"`
	}
	c, err := s.find(name)
	if err == nil {
		err = read(r, &body)
	}
	if err != nil {
		return nil, err
	}
	type hit struct {
		ID      string         `json:"id"`
		Version int            `json:"version"`
		Score   float32        `json:"score"`
		Payload map[string]any `json:"payload"`
	}
	answers := []map[string][]hit{}
	for _, search := range body.Searches {
		if len(search.Query) != c.size {
			return nil, wrong("Vector dimension error: expected dim: %d, got %d", c.size, len(search.Query))
		}
		hits := []hit{}
		for _, p := range c.points {
			if search.Filter.passes(p.Payload) {
				payload := map[string]any{}
				for _, key := range search.WithPayload {
					payload[key] = p.Payload[key]
				}
				hits = append(hits, hit{ID: p.ID, Score: dot(p.Vector, search.Query), Payload: payload})
			}
		}
		slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
		answers = append(answers, map[string][]hit{"points": hits[:min(search.Limit, len(hits))]})
	}
	return answers, nil
}

func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

type filter struct {
	Must    []condition `json:"must"`
	MustNot []condition `json:"must_not"`
}

type condition struct {
	Key   string `json:"key"`
	Match *struct {
		Any []any `json:"any"`
	} `json:"match"`
	Range *struct {
		LT *float64 `json:"lt"`
	} `json:"range"`
}

func (f filter) passes(payload map[string]any) bool {
	return !slices.ContainsFunc(f.Must, func(c condition) bool { return !c.holds(payload) }) &&
		!slices.ContainsFunc(f.MustNot, func(c condition) bool { return c.holds(payload) })
}

// holds says whether the value, or one of them, is among those asked for, or in the range.
func (c condition) holds(payload map[string]any) bool {
	values, several := payload[c.Key].([]any)
	if !several {
		values = []any{payload[c.Key]}
	}
	return slices.ContainsFunc(values, func(v any) bool {
		number, isNumber := v.(float64)
		return c.Match != nil && slices.Contains(c.Match.Any, v) ||
			c.Range != nil && c.Range.LT != nil && isNumber && number < *c.Range.LT
	})
}

// Points are the points of a collection.
func (s *Server) Points(name string) []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	var points []Point
	if c := s.collections[name]; c != nil {
		for _, p := range c.points {
			points = append(points, p)
		}
	}
	return points
}

// Wipe loses everything.
func (s *Server) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collections = nil
}
