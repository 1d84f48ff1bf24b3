package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/wire"
)

// hollow is a list of empty values: two bytes each on the wire, a hundred in memory.
func hollow(n int) []byte {
	var values []byte
	for range n {
		values = protowire.AppendBytes(protowire.AppendTag(values, 1, protowire.BytesType), nil)
	}
	list := protowire.AppendBytes(protowire.AppendTag(nil, 6, protowire.BytesType), values) // Value.list_value
	entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "a")
	entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), list)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry) // Struct.fields
}

func TestAMessageOfVeryManyTinyFieldsIsRefusedBeforeItIsDecoded(t *testing.T) {
	var s structpb.Struct
	require.ErrorContains(t, wire.Unmarshal(hollow(wire.MaxFields), &s), "more than 200000 fields")
	require.Empty(t, s.Fields)
	require.NoError(t, wire.Unmarshal(hollow(1000), &s))
	require.Len(t, s.Fields["a"].GetListValue().Values, 1000)
	require.Greater(t, wire.Weight(hollow(100_000), &s), 10_000_000)
}

func TestWhatMayBeSentHasNotTooManyFields(t *testing.T) {
	dense, err := wire.Struct([]byte(`{"a":[` + strings.TrimSuffix(strings.Repeat("1,", 32700), ",") + `]}`))
	require.NoError(t, err)
	data, err := proto.Marshal(&internalpb.ConnectorSyncRequest{Config: dense, State: dense})
	require.NoError(t, err)
	require.NoError(t, wire.Unmarshal(data, &internalpb.ConnectorSyncRequest{}))

	part := &internalpb.DocumentPart{}
	for range 2000 {
		part.Chunks = append(part.Chunks, &internalpb.Chunk{Text: "x", Start: 1, End: 2, HeadingPath: strings.Split(strings.Repeat("a ", 30), " ")})
	}
	data, err = proto.Marshal(&internalpb.DocumentProcessRequest{Body: &internalpb.DocumentProcessRequest_Part{Part: part}})
	require.NoError(t, err)
	require.NoError(t, wire.Unmarshal(data, &internalpb.DocumentProcessRequest{}))
}

func TestWhatIsNoMessageIsAnErrorAsEver(t *testing.T) {
	for _, data := range [][]byte{{0x0a}, {0x0a, 0x05, 1}, {0xff, 0xff, 0xff}, []byte("{}")} {
		require.Error(t, wire.Unmarshal(data, &structpb.Struct{}))
		require.NotZero(t, wire.Weight(data, &structpb.Struct{}))
	}
}
