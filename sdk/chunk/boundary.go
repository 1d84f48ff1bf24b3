package chunk

import "strings"

type class uint8

const (
	plain class = iota
	space
	newline
	wide // the last byte of 。！？ and of characters that share it
)

var classes = func() (c [256]class) {
	c[' '], c['\t'], c['\r'], c['\v'], c['\f'] = space, space, space, space, space
	c['\n'] = newline
	for _, terminator := range wideTerminators {
		c[terminator[len(terminator)-1]] = wide
	}
	return c
}()

// wideTerminators end a sentence without a space after them.
var wideTerminators = [...]string{"。", "！", "？"}

// endsSentence tells whether the white space at i is after the end of a sentence: a terminator, perhaps closing quotes or
// brackets, white space, and no lower-case letter after it ("e.g. this"). It is Unicode's UAX #29 (rules SB8 to SB11) reduced
// to ASCII.
func endsSentence(text string, from, i int) bool {
	j := i - 1
	for j > from && i-j < 6 && isCloser(text[j]) {
		j--
	}
	if j < from || (text[j] != '.' && text[j] != '!' && text[j] != '?') {
		return false
	}
	return i+1 >= len(text) || text[i+1] < 'a' || text[i+1] > 'z'
}

// isCloser also accepts the last byte of ’ and ”, which follow a terminator in the same way.
func isCloser(b byte) bool {
	switch b {
	case '"', '\'', ')', ']', '*', '_', 0x99, 0x9d, 0x80, 0xe2:
		return true
	}
	return false
}

func endsWideSentence(text string, i int) bool {
	for _, terminator := range wideTerminators {
		if strings.HasSuffix(text[:i+1], terminator) {
			return true
		}
	}
	return false
}
