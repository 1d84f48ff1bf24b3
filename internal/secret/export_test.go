package secret

// Beyond is how many bytes after the shown part Short looks at.
const Beyond = beyond

// Looked is how many bytes of a text the masks look at, without the regular expressions, which read a text once.
func Looked(text string) int {
	users, pairs := newWalk(text), newWalk(text)
	users.urls(true)
	pairs.pairs()
	return users.looked + pairs.looked
}

// Named is the regular expression of a name and a separator, without regard to capitals.
const Named = `(?i)` + named

// Finds says whether a text has a name and a separator; MayFind, whether it is searched at all.
func Finds(text string) bool { return names.MatchString(text) }

func MayFind(text string) bool { return mayHavePairs(text) }
