package wire_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/wire"
)

// some is a random value, nested no deeper than this.
func some(rng *rand.Rand, depth int) any {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch rng.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return rng.IntN(2) == 0
	case 2:
		return float64(rng.IntN(1<<30)) / float64(1+rng.IntN(3)) * []float64{1, -1, 1e-200, 1e200}[rng.IntN(4)]
	case 3:
		return strings.Repeat("ß\x00", rng.IntN(200))
	case 4:
		list := make([]any, rng.IntN(8))
		for i := range list {
			list[i] = some(rng, depth-1)
		}
		return list
	}
	object := map[string]any{}
	for range rng.IntN(6) {
		object[strings.Repeat("k", rng.IntN(200))] = some(rng, depth-1)
	}
	return object
}

func TestWhatIsEncodedIsTheStructOfTheObject(t *testing.T) {
	for seed := range uint64(200) {
		object := map[string]any{"a": some(rand.New(rand.NewPCG(seed, 0)), 4)}
		text, err := json.Marshal(object)
		require.NoError(t, err)
		want, err := structpb.NewStruct(object)
		require.NoError(t, err)
		got, err := wire.Struct(text)
		require.NoError(t, err)
		require.True(t, proto.Equal(want, got), "seed %d: %s", seed, text)
	}
}

func TestManyTinyValuesAreEncodedWithoutAMessageForEach(t *testing.T) {
	object := []byte(`{"x":[` + strings.TrimSuffix(strings.Repeat("0,", 20000), ",") + `]}`)
	require.Less(t, testing.AllocsPerRun(3, func() {
		if _, err := wire.EncodeStruct(object); err != nil {
			t.Fatal(err)
		}
	}), 25_000.0, "decoding it takes one for each value")
}

func BenchmarkEncodeStruct(b *testing.B) {
	object := []byte(strings.Repeat(`{"x": `, 29) + "[" + strings.TrimSuffix(strings.Repeat("0, ", 20000), ", ") + "]" + strings.Repeat("}", 29))
	b.ReportAllocs()
	for b.Loop() {
		_, err := wire.EncodeStruct(object)
		require.NoError(b, err)
	}
}

func TestAnEncodedStructIsTheJSONOfTheStruct(t *testing.T) {
	for seed := range uint64(200) {
		s, err := structpb.NewStruct(map[string]any{"a": some(rand.New(rand.NewPCG(seed, 1)), 4)})
		require.NoError(t, err)
		data, err := proto.Marshal(s)
		require.NoError(t, err)
		got, err := wire.DecodeStruct(data)
		require.NoError(t, err)
		want, err := wire.JSON(s)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), "seed %d", seed)
	}
}

func TestAStructThatNobodyWouldWriteLikeThatIsReadAsALibraryReadsIt(t *testing.T) {
	object := func(entries ...string) string { return strings.Join(entries, "") }
	for what, c := range map[string]struct{ data, want string }{
		"nothing":                  {"", `{}`},
		"a value of no kind":       {object("\n\x05\n\x01a\x12\x00"), `{"a":null}`},
		"a key twice":              {object("\n\x07\n\x01a\x12\x02 \x00", "\n\x07\n\x01a\x12\x02 \x01"), `{"a":true}`},
		"a value of two kinds":     {object("\n\x09\n\x01a\x12\x04\x08\x00 \x01"), `{"a":true}`},
		"the value before its key": {object("\n\x07\x12\x02 \x01\n\x01a"), `{"a":true}`},
		"an unknown field":         {object("\x18\x01", "\n\x07\n\x01a\x12\x02 \x01"), `{"a":true}`},
	} {
		got, err := wire.DecodeStruct([]byte(c.data))
		require.NoError(t, err, what)
		require.JSONEq(t, c.want, string(got), what)
	}
	for _, data := range []string{"\n", "\n\x05abc", "\n\x08\n\x01\xff\x12\x03\x1a\x01\xff"} {
		_, err := wire.DecodeStruct([]byte(data))
		require.Error(t, err, "%q", data)
	}
	none, err := wire.DecodeStruct(nil)
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestAFieldThatIsLeftOutComesOnce(t *testing.T) {
	request := &internalpb.ConnectorSyncRequest{ConnectorId: 7, TypeName: "web"}
	data, err := proto.Marshal(request)
	require.NoError(t, err)
	const config = 6
	object := []byte("\n\x07\n\x01a\x12\x02 \x01")
	whole := protowire.AppendBytes(protowire.AppendTag(data, config, protowire.BytesType), object)
	got := &internalpb.ConnectorSyncRequest{}
	apart, err := wire.UnmarshalApart(whole, got, config)
	require.NoError(t, err)
	require.Equal(t, object, apart)
	require.True(t, proto.Equal(request, got))
	_, err = wire.UnmarshalApart(protowire.AppendBytes(protowire.AppendTag(whole, config, protowire.BytesType), object), got, config)
	require.ErrorContains(t, err, "field 6 comes more than once")
}

func BenchmarkDecodeStruct(b *testing.B) {
	data, err := wire.EncodeStruct([]byte(strings.Repeat(`{"x": `, 29) + "[" + strings.TrimSuffix(strings.Repeat("0, ", 20000), ", ") + "]" + strings.Repeat("}", 29)))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, err := wire.DecodeStruct(data)
		require.NoError(b, err)
	}
}
