package qdrant

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/qdrant/go-client/qdrant"
)

// pageTimeout bounds the reading of a page. Others wait for their turn meanwhile.
const pageTimeout = 4 * time.Second

// Held is a point as the collection holds it.
type Held struct {
	id *qdrant.PointId
	// Named says that it names a document. Only then the other fields are set.
	Named       bool
	DocumentID  int64
	ConnectorID int32
	TryID       uuid.UUID
	FirstNo     int64
	// Scope is empty where no turn of ours has written the point so.
	Scope string
}

// Page returns up to limit points in the order of their ids, beginning at a place, and the place of the next page. An empty place
// is the first point's, and what is returned behind the last one.
func (c *Collection) Page(ctx context.Context, place string, limit uint32) (held []Held, next string, err error) {
	request := &qdrant.ScrollPoints{
		CollectionName: c.Name, Limit: &limit,
		WithPayload: qdrant.NewWithPayloadInclude("scope", "connector_id", "document_id", "try_id", "first_no", "turn"),
	}
	if number, err := strconv.ParseUint(place, 10, 64); err == nil {
		request.Offset = qdrant.NewIDNum(number)
	} else if place != "" {
		request.Offset = qdrant.NewIDUUID(place)
	}
	err = c.call(ctx, "scroll", c.Name, pageTimeout, func(ctx context.Context, q *qdrant.Client) error {
		points, after, err := q.ScrollAndOffset(ctx, request)
		for _, p := range points {
			held = append(held, readHeld(p))
		}
		switch id := after.GetPointIdOptions().(type) {
		case *qdrant.PointId_Num: // not one of ours
			next = strconv.FormatUint(id.Num, 10)
		case *qdrant.PointId_Uuid:
			next = id.Uuid
		}
		return err
	})
	return held, next, err
}

func readHeld(p *qdrant.RetrievedPoint) Held {
	has, wellFormed := p.GetPayload(), true
	integer := func(field string) int64 {
		_, ok := has[field].GetKind().(*qdrant.Value_IntegerValue)
		wellFormed = wellFormed && ok
		return has[field].GetIntegerValue()
	}
	h := Held{id: p.GetId(), DocumentID: integer("document_id"), Named: wellFormed}
	if !h.Named {
		return h
	}
	connector, scope := integer("connector_id"), has["scope"].GetStringValue()
	h.FirstNo, _ = integer("first_no"), integer("turn")
	try, err := uuid.Parse(has["try_id"].GetStringValue())
	if connector == int64(int32(connector)) {
		h.ConnectorID = int32(connector)
	}
	// No text of Postgres holds a NUL.
	if h.TryID = try; wellFormed && err == nil && !strings.ContainsRune(scope, 0) {
		h.Scope = scope
	}
	return h
}

// RemoveHeld removes points that an earlier turn wrote, or no turn of ours.
func (c *Collection) RemoveHeld(ctx context.Context, turn int64, held []Held) error {
	ids := make([]*qdrant.PointId, len(held))
	for i, h := range held {
		ids[i] = h.id
	}
	return c.remove(ctx, turn, qdrant.NewHasID(ids...))
}
