package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/config"
)

func TestWhereQdrantIsIsCheckedAndNeverPrinted(t *testing.T) {
	for _, c := range []struct {
		qdrant config.Qdrant
		says   string
	}{
		{config.Qdrant{}, ""},
		{config.Qdrant{URL: "http://127.0.0.1:6334", Collection: "echomind"}, ""},
		{config.Qdrant{URL: "https://qdrant/", APIKey: "s3cret", Collection: "a-b_C9"}, ""},
		{config.Qdrant{APIKey: "s3cret"}, "QDRANT_API_KEY is set without QDRANT_URL"},
		{config.Qdrant{URL: "qdrant:6334", Collection: "c"}, "must be a URL such as http://127.0.0.1:6334"},
		{config.Qdrant{URL: "grpc://qdrant:6334", Collection: "c"}, "must be a URL such as http://127.0.0.1:6334"},
		{config.Qdrant{URL: "https://qdrant/behind/a/path", Collection: "c"}, "holds a path"},
		{config.Qdrant{URL: "http://qdrant:6333", Collection: "c"}, "gRPC's is 6334"},
		{config.Qdrant{URL: "http://user:s3cret@qdrant", Collection: "c"}, "a key belongs into QDRANT_API_KEY"},
		{config.Qdrant{URL: "http://qdrant?api-key=s3cret", Collection: "c"}, "a key belongs into QDRANT_API_KEY"},
		{config.Qdrant{URL: "http://qdrant", Collection: "a/b"}, `QDRANT_COLLECTION="a/b": must be 1 to 64 letters, digits, - or _`},
		{config.Qdrant{URL: "http://qdrant"}, `QDRANT_COLLECTION=""`},
	} {
		err := c.qdrant.Validate()
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "s3cret")
	}
}
