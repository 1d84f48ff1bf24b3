package chunk

import "strings"

// merge joins the first sections into a group, and returns how many they are (at least one).
func merge(sections []Section, lim limits) (Section, int) {
	first := sections[0]
	if len(sections) == 1 || weighUpTo(first.Text, lim.small) > lim.small {
		return first, 1
	}
	path, weight, n := first.HeadingPath, weigh(first.Text), 1
	end := first.Start + int64(len(first.Text))
	last := namedFrom(first, len(first.HeadingPath), nil)
	need := last // how many headings of its path the group must keep, because its text does not contain them
	for ; n < len(sections); n++ {
		next := sections[n]
		if next.Start != end {
			break
		}
		w := weighUpTo(next.Text, lim.small)
		if w > lim.small || weight+w > lim.max {
			break
		}
		last = namedFrom(next, last, sections[n-1].HeadingPath)
		shared := path[:common(path, next.HeadingPath)]
		if len(shared) < max(need, last) {
			break
		}
		path, need, weight, end = shared, max(need, last), weight+w, end+int64(len(next.Text))
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

// namedFrom returns the place in the path from which the text of a group contains all headings of the section that joins it.
// before is the path of the section before it. The group's text contains the headings of before from place on.
func namedFrom(s Section, place int, before []string) int {
	depth := len(s.HeadingPath)
	inherited := common(before, s.HeadingPath) // the group's text may contain some of these
	if startsWithHeading(s) {
		depth--
	}
	if inherited < depth {
		return depth // a heading between is not in the text
	}
	return min(place, depth)
}

// common is how many headings two paths begin with in common.
func common(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func startsWithHeading(s Section) bool {
	if len(s.HeadingPath) == 0 {
		return false
	}
	heading := s.HeadingPath[len(s.HeadingPath)-1]
	return strings.HasPrefix(strings.TrimLeft(s.Text, whitespace), heading)
}

// weighUpTo stops soon after limit, so that a large section costs little.
func weighUpTo(s string, limit int) int {
	// Every byte weighs at least one.
	if len(s) > limit {
		return limit + 1
	}
	return weigh(s)
}
