package qdrant

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/search/qdrant/standin"
)

var ctx = context.Background()

// at is a client of a server on a port of its own.
func at(t *testing.T, serve func(net.Listener) error) *Client {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = serve(listener) }()
	t.Cleanup(func() { _ = listener.Close() })
	return New(config.Qdrant{URL: "http://" + listener.Addr().String() + "/", APIKey: "s3cret"})
}

// answering is a collection whose server answers every call by a function.
func answering(t *testing.T, answer func(ctx context.Context, request any) (any, error), options ...grpc.ServerOption) *Collection {
	server := grpc.NewServer(append(options, grpc.UnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			return answer(ctx, request)
		}))...)
	qdrant.RegisterCollectionsServer(server, qdrant.UnimplementedCollectionsServer{})
	qdrant.RegisterPointsServer(server, qdrant.UnimplementedPointsServer{})
	t.Cleanup(server.Stop)
	return at(t, server.Serve).Collection("c")
}

func described(size uint64, name string) (any, error) {
	vectors := qdrant.NewVectorsConfig(&qdrant.VectorParams{Size: size, Distance: qdrant.Distance_Dot})
	return &qdrant.GetCollectionInfoResponse{Result: &qdrant.CollectionInfo{
		Config:   &qdrant.CollectionConfig{Params: &qdrant.CollectionParams{VectorsConfig: vectors}},
		Warnings: []*qdrant.CollectionWarning{{Message: name}},
	}}, nil
}

func TestAnAnswerThatIsNoneIsAnErrorThatSaysWhy(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func() (any, error)
		says   string
	}{
		{"an error of its own", func() (any, error) { return nil, status.Error(codes.InvalidArgument, "Wrong input: dim") }, `InvalidArgument: "Wrong input: dim"`},
		{"a long error", func() (any, error) { return nil, status.Error(codes.Internal, strings.Repeat("é", 1000)) }, `Internal: "éé`},
		{"an endless error", func() (any, error) { return nil, status.Error(codes.Internal, strings.Repeat("x", 1<<20)) }, "Internal"},
		{"a refusal", func() (any, error) { return nil, status.Error(codes.Unauthenticated, "Invalid API key or JWT") }, "check QDRANT_API_KEY"},
		{"too much", func() (any, error) { return described(3, strings.Repeat("x", maxMessage)) }, "ResourceExhausted"},
		{"other vectors", func() (any, error) { return described(4, "") }, "4 of Dot instead of 3 of Dot: set QDRANT_COLLECTION"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := answering(t, func(context.Context, any) (any, error) { return c.answer() }).Check(ctx, 3)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "qdrant: check c: ")
			require.NotContains(t, err.Error(), "s3cret")
			require.Less(t, len(err.Error()), 1000)
			require.NotErrorIs(t, err, ErrMissing)
		})
	}
	gone := answering(t, func(context.Context, any) (any, error) {
		return nil, status.Error(codes.NotFound, "Not found: Collection")
	})
	require.ErrorIs(t, gone.Check(ctx, 3), ErrMissing)
	require.ErrorIs(t, gone.Upsert(ctx, 1, nil), ErrMissing)
	unfinished := answering(t, func(context.Context, any) (any, error) {
		return &qdrant.PointsOperationResponse{Result: &qdrant.UpdateResult{Status: qdrant.UpdateStatus_Acknowledged}}, nil
	})
	require.ErrorContains(t, unfinished.Upsert(ctx, 1, nil), "not completed")
	require.ErrorContains(t, unfinished.Remove(ctx, 1, []int64{1}), "not completed")
}

func TestWhatIsNoGRPCIsAnError(t *testing.T) {
	web := httptest.NewServer(nil)
	t.Cleanup(web.Close)
	require.ErrorContains(t, New(config.Qdrant{URL: web.URL}).Collection("c").Check(ctx, 3), "qdrant: check c: ")
	require.ErrorContains(t, New(config.Qdrant{URL: "http://[::1]:1"}).Collection("c").Check(ctx, 3), "[::1]:1")
	require.Equal(t, defaultPort, New(config.Qdrant{URL: "http://qdrant"}).at.Port)
}

func TestAServerThatIsSilentIsNotWaitedForLongerThanItsCaller(t *testing.T) {
	silent, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(done) })
	c := answering(t, func(context.Context, any) (any, error) { silent <- struct{}{}; <-done; return nil, nil })
	ended, cancel := context.WithCancel(ctx)
	go func() { <-silent; cancel() }()
	require.ErrorIs(t, c.Check(ended, 3), context.Canceled)
	late, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	require.ErrorIs(t, c.Check(late, 3), context.DeadlineExceeded)
}

func TestTheKeyIsSentAndNeverLogged(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	var keys []string
	answer := func(ctx context.Context, _ any) (any, error) {
		keys = append(keys, metadata.ValueFromIncomingContext(ctx, "api-key")...)
		return described(3, "")
	}
	require.NoError(t, answering(t, answer).Check(ctx, 3))

	web := httptest.NewUnstartedServer(nil) // for its certificate
	web.StartTLS()
	t.Cleanup(web.Close)
	c := answering(t, answer, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: web.TLS.Certificates})))
	secured := New(config.Qdrant{URL: fmt.Sprintf("https://127.0.0.1:%d", c.at.Port), APIKey: "s3cret"})
	require.ErrorContains(t, secured.Collection("c").Check(ctx, 3), "certificate")
	secured.at.TLSConfig.RootCAs = x509.NewCertPool()
	secured.at.TLSConfig.RootCAs.AddCert(web.Certificate())
	require.NoError(t, secured.Collection("c").Check(ctx, 3))
	require.Equal(t, []string{"s3cret", "s3cret"}, keys)
	require.Empty(t, log.String())
}

// serving is a collection on a stand-in.
func serving(t *testing.T, server *standin.Server) *Collection {
	return at(t, func(l net.Listener) error {
		stop, wait := server.Serve(l)
		t.Cleanup(stop)
		return wait()
	}).Collection("c")
}

// point is chunk no, as a try shows it.
func point(no int, try string, words ...string) Point {
	return Point{
		Scope: []string{"org", "user_7"}[no%2], DocumentID: int64(no / 2), TryID: uuid.NewSHA1(uuid.Nil, []byte(try)), No: int32(no),
		Words: words, Vector: []float32{float32(no), 1},
	}
}

// near is which chunks are nearest.
func near(t *testing.T, c *Collection, limit uint64, scopes []string, words ...string) (found []int32) {
	hits, err := c.Nearest(ctx, []float32{1, 0}, Within{Scopes: scopes}, words, limit, limit)
	require.NoError(t, err)
	for _, h := range hits {
		require.Equal(t, float32(h.No), h.Score)
		found = append(found, h.No)
	}
	return found
}

var all = []string{"org", "user_7"}

func TestHitsAreTheNearestAndThoseThatHoldAWordEachOnce(t *testing.T) {
	c := serving(t, &standin.Server{})
	require.ErrorIs(t, c.Check(ctx, 2), ErrMissing)
	require.NoError(t, c.Create(ctx, "alias", 2))
	require.NoError(t, c.Create(ctx, "alias", 2), "it is there")
	require.NoError(t, c.Upsert(ctx, 1, []Point{point(0, "v0", "apple"), point(1, "v1", "apple", "pie"), point(2, "v2"), point(3, "v3", "pear")}))
	require.Equal(t, []int32{3, 2}, near(t, c, 2, all))
	require.Equal(t, []int32{2, 0}, near(t, c, 9, []string{"org"}))
	require.Equal(t, []int32{3, 1}, near(t, c, 1, all, "apple", "pear", "plum"))
	require.Equal(t, []int32{3, 1}, near(t, c.Collection("alias"), 9, []string{"user_7"}), "as another service asks")
	next := c.Collection("next")
	require.NoError(t, next.Create(ctx, "alias", 2))
	require.Empty(t, near(t, c.Collection("alias"), 9, all))
}

func TestWhatComesLateUndoesNothingOfALaterTurn(t *testing.T) {
	c := serving(t, &standin.Server{})
	require.NoError(t, c.Create(ctx, "alias", 2))
	moved := point(1, "old")
	moved.Scope = "group_g"
	require.NoError(t, c.Upsert(ctx, 1, []Point{point(0, "old"), point(1, "old"), point(2, "other")}))
	require.NoError(t, c.Upsert(ctx, 3, []Point{moved}))
	require.NoError(t, c.Upsert(ctx, 2, []Point{point(1, "old"), point(3, "late")}))
	require.Equal(t, []int32{1}, near(t, c, 9, []string{"group_g"}))
	require.NoError(t, c.Remove(ctx, 2, []int64{0}))
	require.Equal(t, []int32{3, 2, 1}, near(t, c, 9, append(all, "group_g")))
	require.NoError(t, c.Remove(ctx, 4, []int64{0, 1}))
	require.Empty(t, near(t, c, 9, append(all, "group_g")))
}

func TestPagesHoldEveryPointOnceInTheOrderOfTheirIDs(t *testing.T) {
	c := serving(t, &standin.Server{})
	_, _, err := c.Page(ctx, "", 2)
	require.ErrorIs(t, err, ErrMissing)
	require.NoError(t, c.Create(ctx, "alias", 2))
	held, next, err := c.Page(ctx, "", 2)
	require.NoError(t, err)
	require.Empty(t, held)
	require.Empty(t, next)
	for no := range 5 {
		require.NoError(t, c.Upsert(ctx, 1, []Point{point(no, "v")}))
	}
	var places []string
	var ids []string
	scopes := map[string]int{}
	for more, place := true, ""; more; more = place != "" {
		held, place, err = c.Page(ctx, place, 2)
		require.NoError(t, err)
		for _, h := range held {
			require.True(t, h.Named)
			require.Equal(t, point(0, "v").TryID, h.TryID)
			ids, scopes[h.Scope] = append(ids, h.id.GetUuid()), scopes[h.Scope]+1
		}
		places = append(places, place)
	}
	require.Len(t, places, 3)
	require.Len(t, ids, 5)
	require.IsIncreasing(t, ids)
	require.Equal(t, []string{ids[2], ids[4], ""}, places)
	require.Equal(t, map[string]int{"org": 3, "user_7": 2}, scopes)
	require.NoError(t, c.Remove(ctx, 2, []int64{0, 1, 2}))
	held, next, err = c.Page(ctx, places[0], 2)
	require.NoError(t, err, "the point of that place is gone")
	require.Empty(t, held)
	require.Empty(t, next)
}

func TestAPageGoesOnAtANumberToo(t *testing.T) {
	var asked []*qdrant.PointId
	c := answering(t, func(_ context.Context, r any) (any, error) {
		asked = append(asked, r.(*qdrant.ScrollPoints).GetOffset())
		return &qdrant.ScrollResponse{Result: []*qdrant.RetrievedPoint{{Id: qdrant.NewIDNum(7)}}, NextPageOffset: qdrant.NewIDNum(1 << 63)}, nil
	})
	held, next, err := c.Page(ctx, "", 1)
	require.NoError(t, err)
	require.False(t, held[0].Named)
	_, _, err = c.Page(ctx, next, 1)
	require.NoError(t, err)
	require.Nil(t, asked[0])
	require.Equal(t, uint64(1<<63), asked[1].GetNum())
}

func TestARemovalOfPointsThatComesLateRemovesNothingOfALaterTurn(t *testing.T) {
	c := serving(t, &standin.Server{})
	require.NoError(t, c.Create(ctx, "alias", 2))
	require.NoError(t, c.Upsert(ctx, 1, []Point{point(0, "v"), point(1, "v"), point(2, "v")}))
	held, _, err := c.Page(ctx, "", 9)
	require.NoError(t, err)
	require.NoError(t, c.Upsert(ctx, 3, []Point{point(1, "v")}))
	require.NoError(t, c.RemoveHeld(ctx, 2, held))
	require.Equal(t, []int32{1}, near(t, c, 9, all))
}

func TestVectorsOfAnotherLengthAreRefusedAllTogether(t *testing.T) {
	c := serving(t, &standin.Server{})
	require.NoError(t, c.Create(ctx, "alias", 2))
	wrong := point(1, "wrong")
	wrong.Vector = []float32{1, 2, 3}
	require.ErrorContains(t, c.Upsert(ctx, 1, []Point{point(0, "right"), wrong}), "expected dim: 2, got 3")
	require.Empty(t, near(t, c, 9, all))
	_, err := c.Nearest(ctx, []float32{1}, Within{Scopes: all}, nil, 1, 1)
	require.ErrorContains(t, err, "expected dim: 2, got 1")
	require.ErrorContains(t, c.Create(ctx, "alias", 3), "set QDRANT_COLLECTION")
}

func TestAnErrorOfCreateIsReturned(t *testing.T) {
	for _, failing := range []string{"Create", "CreateFieldIndex", "UpdateAliases"} {
		server := &standin.Server{Around: func(operation string, _ proto.Message, next func() error) error {
			if operation == failing {
				return status.Error(codes.Unavailable, "overloaded")
			}
			return next()
		}}
		require.ErrorContains(t, serving(t, server).Create(ctx, "alias", 2), "overloaded", failing)
		server.Around = nil
		require.NoError(t, serving(t, server).Create(ctx, "alias", 2))
	}
}

func TestTheStandinRefusesWhatItDoesNotKnow(t *testing.T) {
	c := serving(t, &standin.Server{})
	require.NoError(t, c.Create(ctx, "alias", 2))
	for name, call := range map[string]func(context.Context, *qdrant.Client) error{
		"a method": func(ctx context.Context, q *qdrant.Client) error {
			_, err := q.Count(ctx, &qdrant.CountPoints{CollectionName: "c"})
			return err
		},
		"an option": func(ctx context.Context, q *qdrant.Client) error {
			_, err := q.QueryBatch(ctx, &qdrant.QueryBatchPoints{CollectionName: "c", Timeout: new(uint64(1))})
			return err
		},
		"a condition": func(ctx context.Context, q *qdrant.Client) error {
			return checkCompleted(q.Delete(ctx, &qdrant.DeletePoints{CollectionName: "c", Points: qdrant.NewPointsSelectorFilter(
				&qdrant.Filter{Should: []*qdrant.Condition{qdrant.NewMatch("scope", "org")}})}))
		},
	} {
		require.ErrorContains(t, c.call(ctx, "test", "c", callTimeout, call), "Unimplemented", name)
	}
}
