package strictjson_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/strictjson"
)

func TestANumberBeyondItsBoundIsNamed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 10} {
		require.NoError(t, strictjson.UpTo("max_files", n, 10, 5))
	}
	for _, n := range []int{-1, 11} {
		require.ErrorContains(t, strictjson.UpTo("max_files", n, 10, 5), "max_files: "+map[int]string{-1: "-1", 11: "11"}[n]+
			" is out of range; use 1 to 10, or leave it out for 5")
	}
}
