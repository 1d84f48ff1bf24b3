package chunk

import (
	"slices"
	"strings"
)

// merge joins the first sections that belong together, and says how many they are (at least one).
func merge(sections []Section, lim limits) (Section, int) {
	first := sections[0]
	if len(sections) == 1 || weighUpTo(first.Text, lim.small) > lim.small {
		return first, 1
	}
	path, weight, n := first.HeadingPath, weigh(first.Text), 1
	end := first.Start + int64(len(first.Text))
	named := startsWithHeading(first)
	for ; n < len(sections); n++ {
		next := sections[n]
		if next.Start != end {
			break
		}
		w := weighUpTo(next.Text, lim.small)
		if w > lim.small || weight+w > lim.max {
			break
		}
		shared, ok := sharedPath(path, next, named)
		if !ok {
			break
		}
		if len(shared) < len(path) {
			// The group now stands under the parent, which its own text need not name.
			named = false
		}
		path, weight, end = shared, weight+w, end+int64(len(next.Text))
	}
	if n == 1 {
		return first, 1
	}
	var b strings.Builder
	b.Grow(int(end - first.Start))
	for _, s := range sections[:n] {
		b.WriteString(s.Text)
	}
	return Section{HeadingPath: path, Text: b.String(), Start: first.Start}, n
}

// sharedPath is the heading path of a group that next joins. named tells whether the text of the group
// begins with the last heading of its path.
func sharedPath(path []string, next Section, named bool) ([]string, bool) {
	switch {
	case slices.Equal(path, next.HeadingPath):
		return path, true
	case len(next.HeadingPath) == len(path)+1 && slices.Equal(path, next.HeadingPath[:len(path)]):
		return path, startsWithHeading(next)
	case len(path) > 0 && len(next.HeadingPath) == len(path) &&
		slices.Equal(path[:len(path)-1], next.HeadingPath[:len(path)-1]):
		return path[:len(path)-1], named && startsWithHeading(next)
	}
	return nil, false
}

func startsWithHeading(s Section) bool {
	if len(s.HeadingPath) == 0 {
		return false
	}
	heading := s.HeadingPath[len(s.HeadingPath)-1]
	return strings.HasPrefix(strings.TrimLeft(s.Text, whitespace), heading)
}

// weighUpTo stops weighing soon after limit, so that looking at a large section costs nothing.
func weighUpTo(s string, limit int) int {
	// Every byte weighs at least one.
	if len(s) > limit {
		return limit + 1
	}
	return weigh(s)
}
