package qdrant

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/qdrant/go-client/qdrant"
)

// Point is one chunk.
type Point struct {
	// Scope is the scope whose readers may find it: user_7, group_g or org.
	Scope       string
	ConnectorID int32
	DocumentID  int64
	// TryID and FirstNo are of the try that the document shows, and No is the chunk's place in it.
	TryID   uuid.UUID
	FirstNo int64
	No      int32
	// Words are the words of the chunk, each once.
	Words []string
	// Vector has length 1, or 0.
	Vector []float32
}

// Hit is a point near a query. Score is the cosine of the angle between their vectors.
type Hit struct {
	Score      float32
	DocumentID int64
	TryID      string
	FirstNo    int64
	No         int32
}

// Collection is one collection of a Qdrant.
type Collection struct {
	*Client
	// Name is the name of the collection.
	Name string
}

// Collection returns the collection of that name; it may be missing. The caller has checked the name.
func (c *Client) Collection(name string) *Collection { return &Collection{c, name} }

// Check asks for the collection. It returns ErrMissing where there is none, and an error where its vectors have another size or
// distance.
func (c *Collection) Check(ctx context.Context, dimensions int) error {
	return c.call(ctx, "check", c.Name, callTimeout, func(ctx context.Context, q *qdrant.Client) error {
		info, err := q.GetCollectionInfo(ctx, c.Name)
		if err != nil {
			return err
		}
		got := info.GetConfig().GetParams().GetVectorsConfig().GetParams()
		if got.GetSize() != uint64(dimensions) || got.GetDistance() != qdrant.Distance_Dot {
			return fmt.Errorf("its vectors are %d of %s instead of %d of Dot: set QDRANT_COLLECTION to a name of this database's own",
				got.GetSize(), got.GetDistance(), dimensions)
		}
		return nil
	})
}

// Create makes the collection, or completes an earlier call, and points the alias at it.
func (c *Collection) Create(ctx context.Context, alias string, dimensions int) error {
	if err := c.Check(ctx, dimensions); err != nil && !errors.Is(err, ErrMissing) {
		return err
	} else if err != nil {
		err := c.call(ctx, "create", c.Name, createTimeout, func(ctx context.Context, q *qdrant.Client) error {
			return q.CreateCollection(ctx, &qdrant.CreateCollection{
				CollectionName: c.Name, OnDiskPayload: new(true),
				VectorsConfig: qdrant.NewVectorsConfig(&qdrant.VectorParams{Size: uint64(dimensions), Distance: qdrant.Distance_Dot}),
			})
		})
		if err != nil {
			return err
		}
	}
	return c.call(ctx, "index", c.Name, createTimeout, func(ctx context.Context, q *qdrant.Client) error {
		// The fields that points are found by; without an index Qdrant looks at every point. Those of a scope lie together.
		tenant := qdrant.NewPayloadIndexParamsKeyword(&qdrant.KeywordIndexParams{IsTenant: new(true)})
		for _, field := range []*qdrant.CreateFieldIndexCollection{
			{FieldName: "scope", FieldType: qdrant.FieldType_FieldTypeKeyword.Enum(), FieldIndexParams: tenant},
			{FieldName: "words", FieldType: qdrant.FieldType_FieldTypeKeyword.Enum()},
			{FieldName: "connector_id", FieldType: qdrant.FieldType_FieldTypeInteger.Enum()},
			{FieldName: "document_id", FieldType: qdrant.FieldType_FieldTypeInteger.Enum()},
			{FieldName: "turn", FieldType: qdrant.FieldType_FieldTypeInteger.Enum()},
		} {
			field.CollectionName, field.Wait = c.Name, new(true)
			if err := checkCompleted(q.CreateFieldIndex(ctx, field)); err != nil {
				return err
			}
		}
		return q.CreateAlias(ctx, alias, c.Name)
	})
}

// checkCompleted returns an error for an update that is not completed.
func checkCompleted(result *qdrant.UpdateResult, err error) error {
	if err == nil && result.GetStatus() != qdrant.UpdateStatus_Completed {
		return fmt.Errorf("it is %q and not completed", result.GetStatus())
	}
	return err
}

// writtenBefore selects the points that an earlier turn wrote, or no turn of ours.
func writtenBefore(turn int64, more ...*qdrant.Condition) *qdrant.Filter {
	return &qdrant.Filter{Must: more, MustNot: []*qdrant.Condition{qdrant.NewRange("turn", &qdrant.Range{Gte: new(float64(turn))})}}
}

// Upsert writes the points of a turn. Later turns have larger numbers. The points can be found when it returns. An upsert that
// arrives late replaces no point of a later turn.
func (c *Collection) Upsert(ctx context.Context, turn int64, points []Point) error {
	all := make([]*qdrant.PointStruct, len(points))
	for i, p := range points {
		words := make([]*qdrant.Value, len(p.Words))
		for j, word := range p.Words {
			words[j] = qdrant.NewValueString(word)
		}
		// The same whenever the chunk is brought.
		id := uuid.NewSHA1(p.TryID, fmt.Appendf(nil, "%d/%d/%d", p.FirstNo, p.DocumentID, p.No))
		all[i] = &qdrant.PointStruct{
			Id: qdrant.NewIDUUID(id.String()), Vectors: qdrant.NewVectorsDense(p.Vector),
			Payload: map[string]*qdrant.Value{
				"scope": qdrant.NewValueString(p.Scope), "connector_id": qdrant.NewValueInt(int64(p.ConnectorID)),
				"document_id": qdrant.NewValueInt(p.DocumentID), "try_id": qdrant.NewValueString(p.TryID.String()),
				"first_no": qdrant.NewValueInt(p.FirstNo), "no": qdrant.NewValueInt(int64(p.No)),
				"turn": qdrant.NewValueInt(turn), "words": qdrant.NewValueFromList(words...),
			},
		}
	}
	return c.call(ctx, "upsert", c.Name, callTimeout, func(ctx context.Context, q *qdrant.Client) error {
		return checkCompleted(q.Upsert(ctx, &qdrant.UpsertPoints{CollectionName: c.Name, Wait: new(true), Points: all, UpdateFilter: writtenBefore(turn)}))
	})
}

// Remove removes the points of documents that were written before a turn. A removal that arrives late removes no point of a later
// turn.
func (c *Collection) Remove(ctx context.Context, turn int64, documents []int64) error {
	return c.remove(ctx, turn, qdrant.NewMatchInts("document_id", documents...))
}

func (c *Collection) remove(ctx context.Context, turn int64, which *qdrant.Condition) error {
	return c.call(ctx, "remove", c.Name, callTimeout, func(ctx context.Context, q *qdrant.Client) error {
		return checkCompleted(q.Delete(ctx, &qdrant.DeletePoints{
			CollectionName: c.Name, Wait: new(true),
			Points: qdrant.NewPointsSelectorFilter(writtenBefore(turn, which)),
		}))
	})
}

// Within is among which points something is looked for: those of scopes (nil: of every scope), and of connectors (empty: of all).
type Within struct {
	Scopes     []string
	Connectors []int32
}

func (w Within) conditions() (all []*qdrant.Condition) {
	if w.Scopes != nil {
		all = append(all, qdrant.NewMatchKeywords("scope", w.Scopes...))
	}
	if len(w.Connectors) > 0 {
		ids := make([]int64, len(w.Connectors))
		for i, id := range w.Connectors {
			ids[i] = int64(id)
		}
		all = append(all, qdrant.NewMatchInts("connector_id", ids...))
	}
	return all
}

// Nearest returns the hits nearest to a vector among some points, up to limit, and for each word up to wordLimit hits that hold it; no
// hit twice.
func (c *Collection) Nearest(ctx context.Context, vector []float32, within Within, words []string, limit, wordLimit uint64) (hits []Hit, err error) {
	search := func(limit uint64, conditions ...*qdrant.Condition) *qdrant.QueryPoints {
		return &qdrant.QueryPoints{
			CollectionName: c.Name, Query: qdrant.NewQueryDense(vector), Filter: &qdrant.Filter{Must: conditions}, Limit: &limit,
			WithPayload: qdrant.NewWithPayloadInclude("document_id", "try_id", "first_no", "no"),
		}
	}
	searches := []*qdrant.QueryPoints{search(limit, within.conditions()...)}
	for _, word := range words {
		searches = append(searches, search(wordLimit, append(within.conditions(), qdrant.NewMatchKeyword("words", word))...))
	}
	err = c.call(ctx, "query", c.Name, callTimeout, func(ctx context.Context, q *qdrant.Client) error {
		answers, err := q.QueryBatch(ctx, &qdrant.QueryBatchPoints{CollectionName: c.Name, QueryPoints: searches})
		seen := map[string]bool{}
		for _, answer := range answers {
			for _, p := range answer.GetResult() {
				if id := p.GetId().GetUuid(); !seen[id] {
					seen[id] = true
					has := p.GetPayload()
					hits = append(hits, Hit{
						p.GetScore(), has["document_id"].GetIntegerValue(), has["try_id"].GetStringValue(), has["first_no"].GetIntegerValue(),
						int32(has["no"].GetIntegerValue()),
					})
				}
			}
		}
		return err
	})
	return hits, err
}
