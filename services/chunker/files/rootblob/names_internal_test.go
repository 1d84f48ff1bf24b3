package rootblob

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPackedNamesComeBackInTheOrderOfTheirKeys(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SampledFrom([]string{"a", "b", "-", "0", ".", "%41", "\x01", "\xff", "é", strings.Repeat("x", 200)})
		items := map[string]item{}
		for range rapid.IntRange(0, 40).Draw(t, "count") {
			name := strings.Join(rapid.SliceOfN(pieces, 1, 4).Draw(t, "name"), "")
			items[name] = item{name: name, escaped: Escape(name), mode: rapid.SampledFrom(kinds).Draw(t, "kind")}
		}
		var packed names
		var want, got []item
		for _, it := range items {
			packed.add(it)
			want = append(want, it)
		}
		packed.sort()
		slices.SortFunc(want, func(a, b item) int { return strings.Compare(a.key(""), b.key("")) })
		for it, ok := packed.next(); ok; it, ok = packed.next() {
			got = append(got, it)
		}
		require.Equal(t, want, got)
	})
}

func TestNamesOfAnUnknownKindAreIrregular(t *testing.T) {
	t.Parallel()
	var packed names
	packed.add(item{name: "a", escaped: "a", mode: fs.ModeNamedPipe | fs.ModeSocket | 0o644})
	it, _ := packed.next()
	require.Equal(t, fs.ModeIrregular, it.mode)
}

func TestNamesTakeLittleMoreThanTheirLetters(t *testing.T) {
	t.Parallel()
	for name, count := range map[string]int{"invoice 2024-%09d.pdf": 900_000, strings.Repeat("x", 51) + "%09d.pdf": 450_000} {
		var packed names
		for i := range count {
			own := fmt.Sprintf(name, i)
			packed.add(item{name: own, escaped: own})
		}
		require.Less(t, packed.bytes(), 32<<20, name)
	}
}
