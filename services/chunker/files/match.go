package files

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// takes tells whether the file at name (relative, slash-separated, not escaped) is one of the source's.
func (c Config) takes(name string) bool {
	if !c.Hidden && isHidden(name) {
		return false
	}
	return (len(c.Include) == 0 || matchesAny(c.Include, name)) && !matchesAny(c.Exclude, name)
}

// skipsDir tells whether nothing under the folder at name can be taken. Include never rules a folder out:
// what its patterns could match below is not worth finding out.
func (c Config) skipsDir(name string) bool {
	if !c.Hidden && strings.HasPrefix(path.Base(name), ".") {
		return true
	}
	for _, p := range c.Exclude {
		if match(p, name) || strings.HasSuffix(p, "/**") && match(strings.TrimSuffix(p, "/**"), name) {
			return true
		}
	}
	return false
}

func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if match(p, name) {
			return true
		}
	}
	return false
}

func match(pattern, name string) bool {
	ok, err := doublestar.Match(pattern, name)
	return err == nil && ok
}
