package secret

// Beyond is how much of a text Short looks at behind what it shows.
const Beyond = beyond

// Looked is how many bytes the masks of a text look at, those of the regular expressions apart, which read a text once.
func Looked(text string) int {
	users, pairs := newWalk(text), newWalk(text)
	users.urls(true)
	pairs.pairs()
	return users.looked + pairs.looked
}
