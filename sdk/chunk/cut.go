package chunk

import "unicode/utf8"

// A coarse cut is preferred to a finer one where it leaves the chunk this full, and this much of the chunk new.
const (
	fillPercent = 40
	newPercent  = 20
)

// findCut returns the end of the chunk that begins at from. It is after done, the end of the chunk before it.
func findCut(text string, from, done int, lim limits) int {
	var (
		weight, fresh                   int
		paragraph, sentence, line, word int
		minWeight                       = lim.max * fillPercent / 100
		minFresh                        = lim.max * newPercent / 100
	)
	i := from
	for ; i < len(text); i++ {
		b := text[i]
		w := int(weights[b])
		if weight+w > lim.max {
			break
		}
		weight += w
		if i >= done {
			fresh += w
		}
		if classes[b] == plain || fresh == 0 {
			continue
		}
		full := weight >= minWeight && fresh >= minFresh
		switch classes[b] {
		case space:
			word = i + 1
			if full && endsSentence(text, from, i) {
				sentence = i + 1
			}
		case newline:
			word = i + 1
			if !full {
				continue
			}
			line = i + 1
			if endsSentence(text, from, i) {
				sentence = i + 1
			}
			if i > from && text[i-1] == '\n' {
				paragraph = i + 1
			}
		case wide:
			if full && endsWideSentence(text, i) {
				sentence = i + 1
			}
		}
	}
	switch {
	case i == len(text):
		return i
	case paragraph > 0:
		return paragraph
	case sentence > 0:
		return sentence
	case line > 0:
		return line
	case word > done:
		return word
	}
	return runeStart(text, i, done)
}

// runeStart moves i back to the start of its UTF-8 sequence, but never to after or before it. Bytes outside any sequence may be
// separated anywhere.
func runeStart(text string, i, after int) int {
	for j := i; j > after && j > i-utf8.UTFMax; j-- {
		if utf8.RuneStart(text[j]) {
			if r, n := utf8.DecodeRuneInString(text[j:]); (r == utf8.RuneError && n <= 1) || j+n <= i {
				return i
			}
			return j
		}
	}
	return i
}

// overlapStart returns the start of the chunk after the chunk from..cut: the start of the first sentence within the overlap
// before cut, else of the first line, else of the first word, else cut itself.
func overlapStart(text string, from, cut int, lim limits) int {
	if cut == len(text) || lim.overlap == 0 {
		return cut
	}
	low, weight := cut, 0
	for low > from+1 {
		w := int(weights[text[low-1]])
		if weight+w > lim.overlap {
			break
		}
		weight += w
		low--
	}
	var line, word int
	for i := low; i < cut-1; i++ {
		switch classes[text[i]] {
		case space:
			if startsWord(text, i+1, cut) && word == 0 {
				word = i + 1
			}
			if endsSentence(text, from, i) && startsWord(text, i+1, cut) {
				return i + 1
			}
		case newline:
			if !startsWord(text, i+1, cut) {
				continue
			}
			if i > from && text[i-1] == '\n' || endsSentence(text, from, i) {
				return i + 1
			}
			if line == 0 {
				line = i + 1
			}
			if word == 0 {
				word = i + 1
			}
		case wide:
			if endsWideSentence(text, i) {
				return i + 1
			}
		}
	}
	switch {
	case line > 0:
		return line
	case word > 0:
		return word
	}
	return cut
}

func startsWord(text string, i, end int) bool {
	return i < end && classes[text[i]] != space && classes[text[i]] != newline
}
