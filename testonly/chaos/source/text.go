package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/internal/failpoint"
	"github.com/echomind/sync/sdk/chunk"
)

// Sizes of texts and of their chunks, in bytes. A document of more than 512 KiB is published in several parts.
const (
	small      = 600
	big        = 600 << 10
	smallChunk = 200
	bigChunk   = 16 << 10
)

// How rare documents are that need several parts, and empty ones: 1 of so many.
const (
	oneIsBig   = 128
	oneIsEmpty = 32
)

var words = []string{"a", "synced", "source", "knows", "what", "was", "stored", "größer", "日本語", "once", "never", "twice", "always"}

// text is what a document says since a version.
func (c Config) text(id string, version int) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(id))
	rng := rand.New(rand.NewPCG(uint64(c.Seed)^sum.Sum64(), uint64(version)))
	size := 50 + rng.IntN(small)
	switch {
	case rng.IntN(oneIsBig) == 0, c.Big > 0 && sum.Sum64()%uint64(c.Big) == 0:
		size = big + rng.IntN(big)
	case rng.IntN(oneIsEmpty) == 0:
		return ""
	}
	var out strings.Builder
	out.Grow(size + 100)
	fmt.Fprintf(&out, "%s of source %d, written in version %d.\n", id, c.Seed, version)
	for out.Len() < size {
		out.WriteString(words[rng.IntN(len(words))])
		out.WriteByte(" \n"[rng.IntN(20)/19])
	}
	return out.String()
}

func poisonText(seed int64) string {
	return fmt.Sprintf("%s\nThis is the poison of source %d.\n", failpoint.PoisonText, seed)
}

// Hash is a document's content hash.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// Chunks cuts a text so that the pieces, one after the other, are the text again. An empty text has none.
func Chunks(text string) []chunk.Chunk {
	size := smallChunk
	if len(text) >= big {
		size = bigChunk
	}
	var all []chunk.Chunk
	for start := 0; start < len(text); {
		end := min(start+size, len(text))
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end--
		}
		all = append(all, chunk.Chunk{Text: text[start:end], Start: int64(start), End: int64(end)})
		start = end
	}
	return all
}
