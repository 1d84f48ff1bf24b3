package search

import (
	"strings"
	"unicode/utf8"

	"github.com/echomind/sync/internal/search/embed"
)

// Mark is what is to be highlighted of a text: from which character (a Unicode code point) to before which.
type Mark struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Excerpt is the part of a text that has most of what was searched for.
type Excerpt struct {
	Text  string
	Marks []Mark
	// Before and After say that the text has more there.
	Before, After bool
}

// partOfWord is how long a word must be that is also highlighted where it is a part of another.
const partOfWord = 4

// ExcerptOf is an excerpt of at most so many characters. It highlights words that were searched for, and words that have one of these in them.
func ExcerptOf(text, searched string, most int) Excerpt {
	marks := marksOf(text, embed.Words(searched))
	runes := []rune(text)
	if len(runes) <= most {
		return Excerpt{Text: text, Marks: marks}
	}
	begin := beginning(marks, len(runes), most)
	end := min(begin+most, len(runes))
	out := Excerpt{Text: string(runes[begin:end]), Marks: []Mark{}, Before: begin > 0, After: end < len(runes)}
	for _, m := range marks {
		if m.End > begin && m.Start < end {
			out.Marks = append(out.Marks, Mark{max(m.Start, begin) - begin, min(m.End, end) - begin})
		}
	}
	return out
}

func marksOf(text string, words []string) []Mark {
	searched := map[string]bool{}
	var long []string
	for _, w := range words {
		searched[w] = true
		if utf8.RuneCountInString(w) >= partOfWord {
			long = append(long, w)
		}
	}
	marks := []Mark{}
	embed.EachWord(text, func(word string, start, end int) {
		is := searched[word]
		for i := 0; i < len(long) && !is; i++ {
			is = strings.Contains(word, long[i])
		}
		if is {
			marks = append(marks, Mark{start, end})
		}
	})
	return marks
}

// beginning is where the excerpt begins that has most marks, with some of what stands before the first of them.
func beginning(marks []Mark, length, most int) int {
	lead := most / 5
	best, count := 0, 0
	for first, behind := 0, 0; first < len(marks); first++ {
		for behind < len(marks) && marks[behind].Start < marks[first].Start+most-lead {
			behind++
		}
		if behind-first > count {
			best, count = max(marks[first].Start-lead, 0), behind-first
		}
	}
	return min(best, max(length-most, 0))
}
