package chunk

// weightPerToken is the resolution of the estimate: weights are quarters of a token.
const weightPerToken = 4

// weights is the estimated weight of each byte in quarters of a token.
//
// The base is the published rule of thumb for byte-pair encodings, one token per four characters of
// English text. Punctuation and digits seldom join longer tokens and count double. Other scripts follow
// from how such encodings cut them: about half a token per character of the two-byte scripts (Latin with
// accents, Greek, Cyrillic, Hebrew, Arabic), one per character of the three-byte ones (Chinese, Japanese,
// Korean, Indic), two per emoji. No byte weighs nothing, so a limit in tokens is also one in bytes (at
// most four per token), on invalid input too.
var weights = func() (w [256]uint8) {
	for b := range w {
		switch {
		case b <= ' ', b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b == 0x7f:
			w[b] = 1
		case b < 0x80:
			w[b] = 2
		case b < 0xe0:
			w[b] = 1
		case b < 0xf0:
			w[b] = 2
		default:
			w[b] = 5
		}
	}
	return w
}()

func weigh(s string) int {
	n := 0
	for i := range len(s) {
		n += int(weights[s[i]])
	}
	return n
}

// Tokens estimates how many tokens an embedding model sees in s, rounded up. It is an estimate of a
// typical byte-pair encoding, made to be fast, additive and deterministic: no vocabulary is loaded, and
// real counts may differ by a third in either direction. Choose MaxTokens with that room.
func Tokens(s string) int {
	return (weigh(s) + weightPerToken - 1) / weightPerToken
}
