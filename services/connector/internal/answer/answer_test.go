package answer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/echomind/sync/services/connector/internal/answer"
)

var limits = answer.Limits{Bytes: 1000, String: 100, Values: 50}

func TestAnAnswerBeyondABoundIsRefusedBeforeItIsDecoded(t *testing.T) {
	for name, text := range map[string]string{
		"1000 bytes": strings.Repeat(" ", 1001) + "1", "50 values": "[" + strings.Repeat("1,", 60) + "1]", "levels deep": strings.Repeat("[", 80),
		"100 bytes": `["` + strings.Repeat("x", 120) + `"]`, "than 50": "[" + strings.Repeat("{},", 60),
	} {
		var into any
		wide := limits
		if strings.HasPrefix(name, "levels") {
			wide.Values = 1000
		}
		err := answer.Decode(strings.NewReader(text), wide, &into)
		require.ErrorIs(t, err, answer.ErrTooLarge, name)
		require.ErrorContains(t, err, name)
		require.Nil(t, into)
	}
	var into any
	require.NoError(t, answer.Decode(strings.NewReader(`{"a":"[[{{,,\"{["}`), answer.Limits{Bytes: 100, String: 20, Values: 1}, &into))
}

func TestAnAnswerThatBreaksOffOrGoesOnIsNoAnswer(t *testing.T) {
	for text, want := range map[string]error{"": io.ErrUnexpectedEOF, `{"a":`: io.ErrUnexpectedEOF, `{} {}`: nil, `{}x`: nil, `<html>`: nil} {
		var into map[string]any
		err := answer.Decode(strings.NewReader(text), limits, &into)
		require.Error(t, err, text)
		require.NotErrorIs(t, err, answer.ErrTooLarge)
		if want != nil {
			require.ErrorIs(t, err, want, text)
		}
	}
}

// whole is any answer, gone through element by element.
type whole struct{ fields map[string][]json.RawMessage }

func (w *whole) Stream(dec *answer.Decoder) error {
	w.fields = map[string][]json.RawMessage{}
	return answer.Object(dec, func(name string) error {
		if strings.HasPrefix(name, "skip") {
			return answer.Skip(dec)
		}
		return answer.Array(dec, func() error {
			var one json.RawMessage
			err := dec.Decode(&one)
			w.fields[name] = append(w.fields[name], one)
			return err
		})
	})
}

func TestAStreamHasWhatTheAnswerHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]any{1.5, "x\"{[,", nil, true, map[string]any{"a": []any{}}, []any{"]", 2}})
		object := map[string]any{}
		for name, elements := range rapid.MapOf(rapid.StringMatching(`(skip)?[a-z]{1,3}`), rapid.SliceOfN(value, 0, 4)).Draw(t, "object") {
			object[name] = elements
		}
		text, err := json.Marshal(object)
		require.NoError(t, err)
		var got whole
		require.NoError(t, answer.Decode(strings.NewReader(string(text)), answer.Limits{Bytes: 1 << 20, String: 100, Values: 1000}, &got))
		for name, elements := range object {
			if strings.HasPrefix(name, "skip") {
				require.NotContains(t, got.fields, name)
				continue
			}
			want, err := json.Marshal(elements)
			require.NoError(t, err)
			have, err := json.Marshal(append([]json.RawMessage{}, got.fields[name]...))
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(have))
		}
	})
}

// FuzzDecode: what is not refused is what encoding/json reads, as a whole and as a stream.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", `{"value":[{"id":"a"},null,[1e9]],"skip":{"x":[]}}`, `[[[[`, `{"a":"\ud800\"{["}`, `{}{}`, `{"a":[}`, "\xef\xbb\xbf{}", `{"a":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want any
		if answer.Decode(bytes.NewReader(text), limits, &got) == nil {
			require.NoError(t, json.Unmarshal(text, &want))
			require.Equal(t, want, got)
		}
		var streamed whole
		if answer.Decode(bytes.NewReader(text), limits, &streamed) == nil {
			require.True(t, json.Valid(text))
		}
	})
}
