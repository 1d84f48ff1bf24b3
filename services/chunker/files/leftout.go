package files

import (
	"fmt"
	"strings"

	"github.com/echomind/sync/internal/secret"
)

// leftOutNames is of how many files of each cause the name is kept: all of them fit into the warnings of a run.
const leftOutNames = 20

// LeftOut is what a listing did not take: files that include and exclude leave out, files whose names are hidden, and folders that are
// left out as a whole.
type LeftOut struct{ Filtered, Hidden, Folders Left }

// Left counts what is left out for one cause.
type Left struct {
	N     int
	Names []string // of the first, relative to the folder
}

func (l *Left) add(name string) {
	if l.N++; l.N <= leftOutNames {
		l.Names = append(l.Names, secret.Short(name, 200))
	}
}

// each calls do for each cause that left something out.
func (l LeftOut) each(do func(what, of string, left Left)) {
	for _, one := range []struct {
		what, of string
		left     Left
	}{{"file", "by include and exclude", l.Filtered}, {"hidden file", "", l.Hidden}, {"whole folder", "", l.Folders}} {
		if one.left.N > 0 {
			do(one.what, one.of, one.left)
		}
	}
}

// String says how much is left out; it is empty where nothing is.
func (l LeftOut) String() string {
	var said []string
	l.each(func(what, of string, left Left) {
		said = append(said, fmt.Sprintf("%s: %d", strings.TrimSpace(what+"s "+of), left.N))
	})
	if len(said) == 0 {
		return ""
	}
	return "left out: " + strings.Join(said, "; ")
}

// Names are the first files and folders of each cause, a line each.
func (l LeftOut) Names() []string {
	var lines []string
	l.each(func(what, of string, left Left) {
		for _, name := range left.Names {
			lines = append(lines, fmt.Sprintf("left out, %s: %s", strings.TrimSpace(what+" "+of), name))
		}
	})
	return lines
}
