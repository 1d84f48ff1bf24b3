package quickxor_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/quickxor"
)

func TestTheHashIsTheServices(t *testing.T) {
	for content, want := range map[string]string{ // base64 of content and of its hash, as other clients compute it
		"":     "AAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		"Sg==": "SgAAAAAAAAAAAAAAAQAAAAAAAAA=",
		"tbQ=": "taAFAAAAAAAAAAAAAgAAAAAAAAA=",
		"0pZP": "0rDEEwAAAAAAAAAAAwAAAAAAAAA=",
	} {
		data, err := base64.StdEncoding.DecodeString(content)
		require.NoError(t, err)
		sum := quickxor.Sum(data)
		require.Equal(t, want, base64.StdEncoding.EncodeToString(sum[:]), content)
	}
}
