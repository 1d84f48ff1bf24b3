package fault

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/topology"
)

// HeaderForged marks what the harness has forged: it may end among the dead letters.
const HeaderForged = "Chaos-Forged"

// forgeDocument are the lies that a document message is told with. Each is of a run that is under way, or was.
var forgeDocument = []func(*internalpb.DocumentProcessRequest, *rand.Rand){
	func(m *internalpb.DocumentProcessRequest, rng *rand.Rand) {
		m.ConnectorId = []int32{0, -1, math.MaxInt32, math.MinInt32, m.ConnectorId + 1, 1 + rng.Int32N(300)}[rng.IntN(6)]
	},
	func(m *internalpb.DocumentProcessRequest, _ *rand.Rand) { m.Try = uuid.NewString() },
	func(m *internalpb.DocumentProcessRequest, _ *rand.Rand) { m.Try = m.ChunkingSession },
	func(m *internalpb.DocumentProcessRequest, rng *rand.Rand) {
		m.ConfigVersion = []int64{0, 1, -1, m.ConfigVersion + 1, math.MaxInt64, math.MinInt64}[rng.IntN(6)]
	},
	func(m *internalpb.DocumentProcessRequest, rng *rand.Rand) {
		m.Number = []int64{-1, math.MaxInt64, math.MinInt64}[rng.IntN(3)]
		if m.Number > 0 {
			m.Try = uuid.NewString() // who knows the try may count as it likes
		}
	},
	func(m *internalpb.DocumentProcessRequest, _ *rand.Rand) { m.ChunkingSession = uuid.NewString() },
	func(m *internalpb.DocumentProcessRequest, _ *rand.Rand) {
		m.ChunkingSession, m.Try = m.Try, m.ChunkingSession
	},
}

// forgeTrigger are those of a trigger.
var forgeTrigger = []func(*internalpb.ConnectorSyncRequest, *rand.Rand){
	func(m *internalpb.ConnectorSyncRequest, rng *rand.Rand) {
		m.ConnectorId = []int32{0, -1, math.MaxInt32, m.ConnectorId + 1, 1 + rng.Int32N(300)}[rng.IntN(5)]
	},
	func(m *internalpb.ConnectorSyncRequest, _ *rand.Rand) { m.ChunkingSession = uuid.NewString() },
	func(m *internalpb.ConnectorSyncRequest, _ *rand.Rand) { m.ChunkingSession = "no session" },
}

func forged() []Fault {
	return []Fault{
		{Name: "forged and outdated messages", Loses: Loss{Forged: true}, Inject: func(ctx context.Context, f *Field) error {
			for range 10 {
				for _, msg := range append(f.Tape.Recent(30), f.Tape.Sample(10, f.Rand)...) {
					f.forge(ctx, msg)
				}
				sleep(ctx, 300*time.Millisecond)
			}
			return nil
		}},
		{Name: "triggers of an hour ahead", Long: true, Inject: func(ctx context.Context, f *Field) error {
			// They stand before what is published again for what is lost here.
			if err := f.purge(ctx, topology.SyncStream); err != nil {
				return err
			}
			for until := time.Now().Add(freeze / 2); time.Now().Before(until) && ctx.Err() == nil; {
				for _, connectorType := range []string{"synthetic", "capped", "starved", "web", "file"} {
					f.ahead(ctx, connectorType)
				}
				sleep(ctx, 500*time.Millisecond)
			}
			return nil
		}},
	}
}

// ahead says a trigger of nobody's run whose dispatch is to come.
func (f *Field) ahead(ctx context.Context, connectorType string) {
	subject, err := topology.SyncSubject(connectorType)
	if err != nil {
		return
	}
	data, err := proto.Marshal(&internalpb.ConnectorSyncRequest{
		ConnectorId: 1 + f.Rand.Int32N(300), ChunkingSession: uuid.NewString(), TypeName: connectorType, ConfigVersion: 1,
	})
	if err != nil {
		return
	}
	msg := nats.NewMsg(subject)
	msg.Data = data
	msg.Header.Set(topology.HeaderDispatchedAt, time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano))
	f.say(ctx, msg)
}

// forge says one message again as it never was.
func (f *Field) forge(ctx context.Context, msg *nats.Msg) {
	again := nats.NewMsg(msg.Subject)
	for key, values := range msg.Header {
		again.Header[key] = append([]string{}, values...)
	}
	again.Header.Del(nats.MsgIdHdr)
	var err error
	if msg.Subject == topology.DocumentSubject {
		again.Data, err = f.forgeDocument(msg.Data, again.Header)
	} else {
		again.Data, err = f.forgeTrigger(msg.Data)
	}
	if err == nil {
		f.say(ctx, again)
	}
}

func (f *Field) say(ctx context.Context, msg *nats.Msg) {
	msg.Header.Set(headerReplayed, "1")
	msg.Header.Set(HeaderForged, "1")
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if _, err := f.World.Stream.PublishMsg(ctx, msg); err != nil && !errors.Is(err, nats.ErrNoResponders) && ctx.Err() == nil {
		f.Log.Debug("a forgery was not taken", "err", err)
	}
}

func (f *Field) forgeDocument(data []byte, headers nats.Header) ([]byte, error) {
	m := &internalpb.DocumentProcessRequest{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	forgeDocument[f.Rand.IntN(len(forgeDocument))](m, f.Rand)
	if f.Rand.IntN(2) == 0 { // else the headers say what it was
		headers.Set(topology.HeaderSession, m.ChunkingSession)
		headers.Set(topology.HeaderTry, m.Try)
		headers.Set(topology.HeaderNumber, strconv.FormatInt(m.Number, 10))
	}
	return proto.Marshal(m)
}

func (f *Field) forgeTrigger(data []byte) ([]byte, error) {
	m := &internalpb.ConnectorSyncRequest{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	forgeTrigger[f.Rand.IntN(len(forgeTrigger))](m, f.Rand)
	return proto.Marshal(m)
}
