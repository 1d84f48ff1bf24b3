package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/proto/gen/internalpb"
	"github.com/echomind/sync/contract/proto/gen/publicpb"
)

func TestNumbersThatADoubleCannotHoldTravelAsStrings(t *testing.T) {
	for in, want := range map[string]any{
		`9007199254740992`: 9007199254740992.0, `9007199254740993`: "9007199254740993",
		`-9007199254740992`: -9007199254740992.0, `-9007199254740993`: "-9007199254740993",
		`18446744073709551616000`: "18446744073709551616000", `0`: 0.0, `-0`: 0.0, `1.5`: 1.5, `1e3`: 1000.0, `1e400`: "1e400",
		`true`: true, `null`: nil, `"text"`: "text", `[9007199254740993]`: []any{"9007199254740993"},
		`{"deep":{"er":9007199254740993}}`: map[string]any{"deep": map[string]any{"er": "9007199254740993"}},
	} {
		s, err := Struct([]byte(`{"v":` + in + `}`))
		if err != nil {
			t.Errorf("%s: %v", in, err)
		} else if got := s.AsMap()["v"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s travels as %#v, want %#v", in, got, want)
		}
	}
}

func TestNothingIsNoStruct(t *testing.T) {
	for _, empty := range [][]byte{nil, {}} {
		if s, err := Struct(empty); s != nil || err != nil {
			t.Errorf("Struct(%v) is %v, %v", empty, s, err)
		}
	}
	if data, err := JSON(nil); data != nil || err != nil {
		t.Errorf("JSON(nil) is %s, %v", data, err)
	}
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	for _, in := range []string{`[]`, `1`, `"a"`, `{`, `{"a":}`, "\x00", "{\"a\":\"\xff\"", strings.Repeat(`{"a":`, 20000)} {
		if s, err := Struct([]byte(in)); err == nil {
			t.Errorf("%.20q gives %v", in, s)
		}
	}
}

// messages is how many messages stand within one another, as a decoder counts them against its limit.
func messages(m protoreflect.Message) (deepest int) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap(): // an entry is a message
			v.Map().Range(func(_ protoreflect.MapKey, e protoreflect.Value) bool {
				deepest = max(deepest, 1+messages(e.Message()))
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				deepest = max(deepest, messages(v.List().Get(i).Message()))
			}
		case f.Message() != nil:
			deepest = max(deepest, messages(v.Message()))
		}
		return true
	})
	return deepest + 1
}

func TestWhatIsNestedTooDeepForADecoderIsRefused(t *testing.T) {
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	lists := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + "1" + strings.Repeat("]", n-1) + "}" }
	for name, nested := range map[string]func(int) string{"objects": objects, "lists": lists} {
		s, err := Struct([]byte(nested(MaxDepth)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		request := &internalpb.ConnectorSyncRequest{Config: s}
		if n := messages(request.ProtoReflect()); n > 95 {
			t.Errorf("%s: %d messages within one another, decoders take 100", name, n)
		}
		if _, err := Struct([]byte(nested(MaxDepth + 1))); err == nil || !strings.Contains(err.Error(), "more than 30 levels deep") {
			t.Errorf("%s: one level more: %v", name, err)
		}
	}
	if _, err := Struct([]byte(strings.Repeat(`{"a":`, MaxDepth) + "{}" + strings.Repeat("}", MaxDepth))); err != nil {
		t.Errorf("an empty object at the last level, which the database takes: %v", err)
	}
}

func TestAnObjectSurvivesTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			rapid.Map(rapid.Int32(), func(i int32) any { return float64(i) }),
			rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any {
				list := make([]any, len(s))
				for i := range s {
					list[i] = s[i]
				}
				return list
			}),
		)).Draw(t, "object")
		in, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Struct(in)
		if err != nil {
			t.Fatal(err)
		}
		out, err := JSON(s)
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(object, back) {
			t.Fatalf("%s comes back as %s", in, out)
		}
	})
}

func TestTypesKeepTheirNumbers(t *testing.T) {
	for name, number := range map[string]int32{
		"teams": 1, "google_drive": 2, "onedrive": 3, "web": 4, "file": 5, "wiki": 100, "": 100, "WEB": 100,
	} {
		if got := Type(name); int32(got) != number {
			t.Errorf("type %q has number %d, want %d", name, got, number)
		}
	}
}

func TestScopesAreFour(t *testing.T) {
	for name, want := range map[string]publicpb.ConnectorScope{"user": 1, "group": 2, "org": 3, "system": 4} {
		if got, err := Scope(name); err != nil || got != want {
			t.Errorf("scope %q is %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "User", "world"} {
		if _, err := Scope(name); err == nil || !strings.Contains(err.Error(), "user, group, org or system") {
			t.Errorf("scope %q: %v", name, err)
		}
	}
}

func TestATimeKeepsItsMicroseconds(t *testing.T) {
	at := time.Date(2026, 3, 1, 1, 2, 3, 4000, time.FixedZone("", 3600))
	if got := FormatTime(at); got != "2026-03-01T00:02:03.000004Z" {
		t.Errorf("FormatTime is %s", got)
	}
	if got := FormatTime(at.Truncate(time.Second)); got != "2026-03-01T00:02:03.000000Z" {
		t.Errorf("FormatTime of a whole second is %s", got)
	}
	back, err := time.Parse(time.RFC3339Nano, FormatTime(at))
	if err != nil || !back.Equal(at) {
		t.Errorf("it comes back as %s, %v", back, err)
	}
}

func FuzzStruct(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":9007199254740993}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := Struct(in)
		if err != nil || s == nil {
			return
		}
		if _, err := JSON(s); err != nil {
			t.Errorf("%q becomes a Struct without JSON: %v", in, err)
		}
	})
}
