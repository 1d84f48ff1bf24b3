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
