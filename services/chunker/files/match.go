package files

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// globs say which files of a folder are the source's. Their patterns have no braces.
type globs struct {
	include, exclude []string
	hidden           bool
}

// dear is longer than the patterns that people write take for one name, by a thousand times.
const dear = 2 * time.Millisecond

func (c Config) globs() (globs, error) {
	if err := c.Validate(); err != nil {
		return globs{}, err
	}
	g := globs{hidden: c.Hidden}
	for _, p := range c.Include {
		written, _ := expand(p)
		g.include = append(g.include, written...)
	}
	for _, p := range c.Exclude {
		written, _ := expand(p)
		g.exclude = append(g.exclude, written...)
	}
	return g, nil
}

// takes tells whether the file at name (relative, slash-separated, not escaped) is one of the source's. Its error is
// ctx's: patterns may be many and names long.
func (g globs) takes(ctx context.Context, name string) (taken bool, err error) {
	defer rests(ctx, time.Now())
	if !g.hidden && isHidden(name) {
		return false, nil
	}
	included := len(g.include) == 0
	if !included {
		var err error
		if included, err = matchesAny(ctx, g.include, name); err != nil {
			return false, err
		}
	}
	if !included {
		return false, nil
	}
	excluded, err := matchesAny(ctx, g.exclude, name)
	return !excluded && err == nil, err
}

// skipsDir tells whether nothing under the folder at name can be taken. Include never rules a folder out:
// what its patterns could match below is not worth finding out. Once ctx has ended it answers true.
func (g globs) skipsDir(ctx context.Context, name string) bool {
	if !g.hidden && strings.HasPrefix(path.Base(name), ".") {
		return true
	}
	defer rests(ctx, time.Now())
	for _, p := range g.exclude {
		if ctx.Err() != nil || match(p, name) || strings.HasSuffix(p, "/**") && match(strings.TrimSuffix(p, "/**"), name) {
			return true
		}
	}
	return false
}

// rests leaves the processor to others after a name that took long.
func rests(ctx context.Context, began time.Time) {
	pause := pauseAfter(time.Since(began))
	if pause == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// pauseAfter is how long a listing rests after it was at one name: not at all where it took what patterns take, else so long that
// it has a fifth of a processor.
func pauseAfter(spent time.Duration) time.Duration {
	if spent < dear {
		return 0
	}
	return min(4*spent, time.Second)
}

func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

func matchesAny(ctx context.Context, patterns []string, name string) (bool, error) {
	for _, p := range patterns {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if match(p, name) {
			return true, nil
		}
	}
	return false, nil
}

func match(pattern, name string) bool {
	ok, err := doublestar.Match(pattern, name)
	return err == nil && ok
}
