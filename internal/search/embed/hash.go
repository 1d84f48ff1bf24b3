// Package embed turns text into vectors. Hash is the embedded default: it needs no download and is deterministic.
package embed

import (
	"context"
	"math"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Dimensions of a Hash vector.
const Dimensions = 512

const (
	// features is the size of the table in which terms are counted before they are folded into the vector.
	features = 1 << 15
	// gram is the length of a character n-gram.
	gram = 4
	// Weights of the kinds of terms. Short words are mostly function words, in any language that has them.
	wordWeight, shortWordWeight, gramWeight = 1.0, 0.25, 0.35
	shortWord                               = 3
	maxWord                                 = 64
	// spread is how many places of the vector one term adds to.
	spread = 4
)

// Hash embeds by hashing words and character n-grams, with sublinear term weights (1 + ln tf) and L2 normalisation.
// Texts that share words, or parts of words, are near each other. It is safe for concurrent use.
type Hash struct{ tables sync.Pool }

// Name identifies the embedder and its parameters; vectors of different names are not comparable.
func (*Hash) Name() string { return "hash-512-v1" }

// Dimensions is the length of its vectors.
func (*Hash) Dimensions() int { return Dimensions }

// Embed returns one vector of unit length per text; a text without words gives the zero vector.
func (h *Hash) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	t, _ := h.tables.Get().(*table)
	if t == nil {
		t = &table{}
	}
	defer h.tables.Put(t)
	out := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.count(text)
		out[i] = t.vector()
	}
	return out, nil
}

// table counts terms by feature; only touched features are visited and cleared.
type table struct {
	counts  [features]uint16
	weight  [features]float32
	touched []uint32
	word    []byte
}

func (t *table) count(text string) {
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		i += size
		if isWordRune(r) {
			if len(t.word) < maxWord {
				t.word = utf8.AppendRune(t.word, toLower(r))
			}
			continue
		}
		t.endWord()
	}
	t.endWord()
}

func (t *table) endWord() {
	if len(t.word) == 0 {
		return
	}
	w := t.word
	if utf8.RuneCount(w) <= shortWord {
		t.add(hash(w, 1), shortWordWeight)
	} else {
		t.add(hash(w, 1), wordWeight)
		for i := 0; i+gram <= len(w); i++ {
			t.add(hash(w[i:i+gram], 2), gramWeight)
		}
	}
	t.word = t.word[:0]
}

func (t *table) add(h uint64, weight float32) {
	f := uint32(h % features)
	if t.counts[f] == 0 {
		t.touched = append(t.touched, f)
		t.weight[f] = weight
	}
	if t.counts[f] < math.MaxUint16 {
		t.counts[f]++
	}
}

func (t *table) vector() []float32 {
	v := make([]float32, Dimensions)
	for _, f := range t.touched {
		w := t.weight[f] * float32(1+math.Log(float64(t.counts[f])))
		bits := mix(uint64(f) + 0x9E3779B97F4A7C15)
		for range spread {
			if bits&1 == 0 {
				v[(bits>>1)%Dimensions] += w
			} else {
				v[(bits>>1)%Dimensions] -= w
			}
			bits >>= 12
		}
		t.counts[f] = 0
	}
	t.touched = t.touched[:0]
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum > 0 {
		norm := float32(1 / math.Sqrt(sum))
		for i := range v {
			v[i] *= norm
		}
	}
	return v
}

func isWordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func toLower(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return unicode.ToLower(r)
}

// hash is FNV-1a, finished by a mixer so that its low bits are as good as its high ones.
func hash(term []byte, kind uint64) uint64 {
	h := 14695981039346656037 ^ kind
	for _, c := range term {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

// Words are the words of a text as the embedder sees them, each once, in order.
func Words(text string) []string {
	var words []string
	seen := map[string]bool{}
	EachWord(text, func(word string, _, _ int) {
		if !seen[word] {
			seen[word] = true
			words = append(words, word)
		}
	})
	return words
}

// EachWord calls found for each word of a text as the embedder sees it, and says from which character to which it goes.
func EachWord(text string, found func(word string, start, end int)) {
	var word []byte
	start, at := 0, 0
	end := func() {
		if len(word) > 0 {
			found(string(word), start, at)
		}
		word = word[:0]
	}
	for _, r := range text {
		if isWordRune(r) {
			if len(word) == 0 {
				start = at
			}
			if len(word) < maxWord {
				word = utf8.AppendRune(word, toLower(r))
			}
		} else {
			end()
		}
		at++
	}
	end()
}
