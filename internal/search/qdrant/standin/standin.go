// Package standin is what this repository uses of a Qdrant, in memory, by comparing every point: it implements the services
// that Qdrant's makers generate from their protos. It stands in for Qdrant in tests where none can be had. It is strict: what
// it does not know it refuses.
package standin

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxMessage bounds a request, in bytes.
const maxMessage = 32 << 20

// Server is one Qdrant. Its zero value is ready, without a key.
type Server struct {
	qdrant.UnimplementedQdrantServer
	qdrant.UnimplementedCollectionsServer

	// Key is what must come as api-key, where it is set.
	Key string
	// Around, where it is set, is called with each operation's name and request, as "Upsert", and carries it out by next. It
	// may block.
	Around func(operation string, request proto.Message, next func() error) error

	mu          sync.Mutex
	collections map[string]*collection
	aliases     map[string]string
}

type points struct {
	qdrant.UnimplementedPointsServer
	server *Server
}

type collection struct {
	params *qdrant.VectorParams
	points map[string]*qdrant.PointStruct // by id
}

// Serve answers until the listener is closed, or the function that it returns is called.
func (s *Server) Serve(listener net.Listener) (stop func(), wait func() error) {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.UnaryInterceptor(s.intercept))
	qdrant.RegisterQdrantServer(server, s)
	qdrant.RegisterCollectionsServer(server, s)
	qdrant.RegisterPointsServer(server, points{server: s})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return server.Stop, func() error { return <-served }
}

func (s *Server) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	operation := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	if keys := metadata.ValueFromIncomingContext(ctx, "api-key"); s.Key != "" && operation != "HealthCheck" && !slices.Contains(keys, s.Key) {
		return nil, status.Error(codes.Unauthenticated, "Invalid API key or JWT")
	}
	next := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer, err = handle(ctx, request)
		return err
	}
	if s.Around != nil {
		return answer, s.Around(operation, request.(proto.Message), next)
	}
	return answer, next()
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, "Wrong input: "+format, args...)
}

// checkFields refuses a message that says more than these fields.
func checkFields(m proto.Message, fields ...protoreflect.Name) (err error) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !slices.Contains(fields, f.Name()) {
			err = status.Errorf(codes.Unimplemented, "%s.%s is not known here", f.Parent().Name(), f.Name())
		}
		return err == nil
	})
	return err
}

// find is the collection of a request that names it.
func (s *Server) find(request interface {
	proto.Message
	GetCollectionName() string
}, fields ...protoreflect.Name) (*collection, error) {
	name := request.GetCollectionName()
	c := s.collections[cmp.Or(s.aliases[name], name)]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "Not found: Collection `%s` doesn't exist!", name)
	}
	return c, checkFields(request, append(fields, "collection_name")...)
}

// HealthCheck says that it is there.
func (s *Server) HealthCheck(context.Context, *qdrant.HealthCheckRequest) (*qdrant.HealthCheckReply, error) {
	return &qdrant.HealthCheckReply{Title: "qdrant - vector search engine", Version: "1.17.1"}, nil
}

// Get describes a collection.
func (s *Server) Get(_ context.Context, r *qdrant.GetCollectionInfoRequest) (*qdrant.GetCollectionInfoResponse, error) {
	c, err := s.find(r)
	if err != nil {
		return nil, err
	}
	return &qdrant.GetCollectionInfoResponse{Result: &qdrant.CollectionInfo{
		Status: qdrant.CollectionStatus_Green, PointsCount: new(uint64(len(c.points))),
		Config: &qdrant.CollectionConfig{Params: &qdrant.CollectionParams{VectorsConfig: &qdrant.VectorsConfig{
			Config: &qdrant.VectorsConfig_Params{Params: c.params},
		}}},
	}}, nil
}

// Create makes a collection.
func (s *Server) Create(_ context.Context, r *qdrant.CreateCollection) (*qdrant.CollectionOperationResponse, error) {
	name, params := r.GetCollectionName(), r.GetVectorsConfig().GetParams()
	if err := checkFields(r, "collection_name", "vectors_config", "on_disk_payload"); err != nil {
		return nil, err
	}
	if name == "" || len(name) > 255 || params.GetSize() == 0 || params.GetDistance() != qdrant.Distance_Dot {
		return nil, invalid("collection %q with %v", name, params)
	}
	if s.collections[name] != nil || s.aliases[name] != "" {
		return nil, status.Errorf(codes.AlreadyExists, "Wrong input: Collection `%s` already exists!", name)
	}
	if s.collections == nil {
		s.collections, s.aliases = map[string]*collection{}, map[string]string{}
	}
	s.collections[name] = &collection{params, map[string]*qdrant.PointStruct{}}
	return &qdrant.CollectionOperationResponse{Result: true}, nil
}

// UpdateAliases lets an alias name a collection, instead of the one that it has named.
func (s *Server) UpdateAliases(_ context.Context, r *qdrant.ChangeAliases) (*qdrant.CollectionOperationResponse, error) {
	for _, action := range r.GetActions() {
		a := action.GetCreateAlias()
		if a == nil {
			return nil, status.Error(codes.Unimplemented, "only creating an alias is known here")
		}
		if _, err := s.find(a, "alias_name"); err != nil {
			return nil, err
		}
		if s.collections[a.AliasName] != nil {
			return nil, status.Errorf(codes.AlreadyExists, "Wrong input: Collection `%s` already exists!", a.AliasName)
		}
		s.aliases[a.AliasName] = a.CollectionName
	}
	return &qdrant.CollectionOperationResponse{Result: true}, nil
}

func completed() *qdrant.PointsOperationResponse {
	return &qdrant.PointsOperationResponse{Result: &qdrant.UpdateResult{Status: qdrant.UpdateStatus_Completed}}
}

// CreateFieldIndex takes an index, and needs none.
func (s points) CreateFieldIndex(_ context.Context, r *qdrant.CreateFieldIndexCollection) (*qdrant.PointsOperationResponse, error) {
	if _, err := s.server.find(r, "wait", "field_name", "field_type", "field_index_params"); err != nil {
		return nil, err
	}
	return completed(), nil
}

// Upsert writes points; all of them, or none.
func (s points) Upsert(_ context.Context, r *qdrant.UpsertPoints) (*qdrant.PointsOperationResponse, error) {
	c, err := s.server.find(r, "wait", "points", "update_filter")
	if err == nil {
		_, err = passes(r.GetUpdateFilter(), nil)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range r.GetPoints() {
		if got := len(vector(p)); uint64(got) != c.params.GetSize() {
			return nil, invalid("Vector dimension error: expected dim: %d, got %d", c.params.GetSize(), got)
		}
		if uuid.Validate(p.GetId().GetUuid()) != nil {
			return nil, invalid("Unable to parse UUID: %s", p.GetId().GetUuid())
		}
	}
	for _, p := range r.GetPoints() {
		there := c.points[p.GetId().GetUuid()]
		if matches, _ := passes(r.GetUpdateFilter(), there); there == nil || matches {
			c.points[p.GetId().GetUuid()] = p
		}
	}
	return completed(), nil
}

func vector(p *qdrant.PointStruct) []float32 { return p.GetVectors().GetVector().GetDense().GetData() }

// Delete removes the points that a filter passes.
func (s points) Delete(_ context.Context, r *qdrant.DeletePoints) (*qdrant.PointsOperationResponse, error) {
	c, err := s.server.find(r, "wait", "points")
	if err != nil {
		return nil, err
	}
	if r.GetPoints().GetFilter() == nil {
		return nil, status.Error(codes.Unimplemented, "only deleting by a filter is known here")
	}
	found, err := c.passing(r.GetPoints().GetFilter())
	for _, p := range found {
		delete(c.points, p.GetId().GetUuid())
	}
	return completed(), err
}

// Scroll pages through points in the order of their ids.
func (s points) Scroll(_ context.Context, r *qdrant.ScrollPoints) (*qdrant.ScrollResponse, error) {
	c, err := s.server.find(r, "filter", "offset", "limit", "with_payload")
	if err != nil {
		return nil, err
	}
	if r.GetLimit() == 0 {
		return nil, invalid("limit: must be greater than or equal to 1")
	}
	found, err := c.passing(r.GetFilter())
	answer := &qdrant.ScrollResponse{}
	for _, p := range found {
		if p.GetId().GetUuid() < r.GetOffset().GetUuid() {
			continue
		}
		if len(answer.Result) == int(r.GetLimit()) {
			answer.NextPageOffset = p.GetId()
			break
		}
		answer.Result = append(answer.Result, &qdrant.RetrievedPoint{Id: p.GetId(), Payload: included(p, r.GetWithPayload())})
	}
	return answer, err
}

// QueryBatch finds the nearest of the points that filters pass.
func (s points) QueryBatch(_ context.Context, r *qdrant.QueryBatchPoints) (*qdrant.QueryBatchResponse, error) {
	c, err := s.server.find(r, "query_points")
	if err != nil {
		return nil, err
	}
	answer := &qdrant.QueryBatchResponse{}
	for _, query := range r.GetQueryPoints() {
		if err := checkFields(query, "collection_name", "query", "filter", "limit", "with_payload"); err != nil {
			return nil, err
		}
		wanted := query.GetQuery().GetNearest().GetDense().GetData()
		if uint64(len(wanted)) != c.params.GetSize() {
			return nil, invalid("Vector dimension error: expected dim: %d, got %d", c.params.GetSize(), len(wanted))
		}
		found, err := c.passing(query.GetFilter())
		if err != nil {
			return nil, err
		}
		batch := &qdrant.BatchResult{}
		for _, p := range found {
			hit := &qdrant.ScoredPoint{Id: p.GetId(), Payload: included(p, query.GetWithPayload())}
			for i, v := range vector(p) {
				hit.Score += v * wanted[i]
			}
			batch.Result = append(batch.Result, hit)
		}
		slices.SortStableFunc(batch.Result, func(a, b *qdrant.ScoredPoint) int { return cmp.Compare(b.Score, a.Score) })
		batch.Result = batch.Result[:min(int(query.GetLimit()), len(batch.Result))]
		answer.Result = append(answer.Result, batch)
	}
	return answer, nil
}

func included(p *qdrant.PointStruct, with *qdrant.WithPayloadSelector) map[string]*qdrant.Value {
	payload := map[string]*qdrant.Value{}
	for _, field := range with.GetInclude().GetFields() {
		if value := p.GetPayload()[field]; value != nil {
			payload[field] = value
		}
	}
	return payload
}

// passing are the points that a filter passes, in the order of their ids.
func (c *collection) passing(f *qdrant.Filter) (found []*qdrant.PointStruct, err error) {
	if _, err := passes(f, nil); err != nil {
		return nil, err
	}
	for _, p := range c.points {
		if matches, _ := passes(f, p); matches {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *qdrant.PointStruct) int { return cmp.Compare(a.GetId().GetUuid(), b.GetId().GetUuid()) })
	return found, nil
}

func passes(f *qdrant.Filter, p *qdrant.PointStruct) (bool, error) {
	if err := checkFields(f, "must", "must_not"); err != nil {
		return false, err
	}
	all := true
	for i, c := range append(slices.Clone(f.GetMust()), f.GetMustNot()...) {
		holds, err := meets(c, p)
		if err != nil {
			return false, err
		}
		all = all && holds == (i < len(f.GetMust()))
	}
	return all, nil
}

func meets(c *qdrant.Condition, p *qdrant.PointStruct) (bool, error) {
	if ids := c.GetHasId(); ids != nil {
		is := func(id *qdrant.PointId) bool { return proto.Equal(id, p.GetId()) }
		return slices.ContainsFunc(ids.GetHasId(), is), nil
	}
	field := c.GetField()
	if err := cmp.Or(checkFields(c, "field"), checkFields(field, "key", "match", "range"), checkFields(field.GetRange(), "gte")); err != nil {
		return false, err
	}
	values := []*qdrant.Value{p.GetPayload()[field.GetKey()]}
	if list := values[0].GetListValue(); list != nil {
		values = list.GetValues()
	}
	return slices.ContainsFunc(values, func(v *qdrant.Value) bool {
		text, isText := v.GetKind().(*qdrant.Value_StringValue)
		number, isNumber := v.GetKind().(*qdrant.Value_IntegerValue)
		switch m := field.GetMatch().GetMatchValue().(type) {
		case *qdrant.Match_Keyword:
			return isText && text.StringValue == m.Keyword
		case *qdrant.Match_Keywords:
			return isText && slices.Contains(m.Keywords.GetStrings(), text.StringValue)
		case *qdrant.Match_Integers:
			return isNumber && slices.Contains(m.Integers.GetIntegers(), number.IntegerValue)
		default:
			return isNumber && field.GetRange().Gte != nil && float64(number.IntegerValue) >= field.GetRange().GetGte()
		}
	}), nil
}

// Points are the payloads of the points of a collection, or of one that an alias names.
func (s *Server) Points(name string) (payloads []map[string]*qdrant.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.collections[cmp.Or(s.aliases[name], name)]; c != nil {
		for _, p := range c.points {
			payloads = append(payloads, p.GetPayload())
		}
	}
	return payloads
}

// Snapshot remembers everything, and returns a function that brings it back.
func (s *Server) Snapshot() (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	collections, aliases := map[string]*collection{}, maps.Clone(s.aliases)
	for name, c := range s.collections {
		collections[name] = &collection{c.params, maps.Clone(c.points)}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.collections, s.aliases = collections, aliases
	}
}

// Wipe loses everything.
func (s *Server) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collections, s.aliases = nil, nil
}
