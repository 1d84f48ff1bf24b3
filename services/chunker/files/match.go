package files

import (
	"context"
	"path"
	"strings"
)

// globs decide which files of a folder belong to the source, in one listing: they count its steps.
type globs struct {
	include, exclude []pattern
	// folders are the exclude patterns that end in "/**", without that ending, where only "/**" matches the folder itself.
	folders []pattern
	hidden  bool
	pace    *pace
}

func (c Config) globs() (globs, error) {
	if err := c.Validate(); err != nil {
		return globs{}, err
	}
	g := globs{hidden: c.Hidden, pace: newPace()}
	g.include, _ = compileAll(c.Include)
	g.exclude, g.folders = compileAll(c.Exclude)
	return g, nil
}

// compileAll compiles globs, with their braces expanded.
func compileAll(written []string) (all, folders []pattern) {
	for _, p := range written {
		expanded, _ := expand(p)
		for _, glob := range expanded {
			all = append(all, compile(glob))
			// "a/**" matches the folder "a" itself, but "a*/**" does not.
			if folder, ok := strings.CutSuffix(glob, "/**"); ok && (strings.HasSuffix(folder, "*") || strings.HasSuffix(folder, "/")) {
				folders = append(folders, compile(folder))
			}
		}
	}
	return all, folders
}

// takes tells whether the file at name (relative, slash-separated, not escaped) belongs to the source. Its error is ctx's:
// there may be many patterns and long names.
func (g globs) takes(ctx context.Context, name string) (taken bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	g.pace.name()
	if !g.hidden && isHidden(name) {
		return false, nil
	}
	included := len(g.include) == 0
	if !included {
		if included, err = g.any(ctx, g.include, name); err != nil || !included {
			return false, err
		}
	}
	excluded, err := g.any(ctx, g.exclude, name)
	return !excluded && err == nil, err
}

// skipsDir tells whether no file under the folder at name is taken. Include never excludes a folder: it is not worth computing
// what its patterns could match below. Once ctx has ended it returns true.
func (g globs) skipsDir(ctx context.Context, name string) bool {
	if ctx.Err() != nil || !g.hidden && strings.HasPrefix(path.Base(name), ".") {
		return true
	}
	g.pace.name()
	for _, patterns := range [][]pattern{g.exclude, g.folders} {
		if excluded, err := g.any(ctx, patterns, name); excluded || err != nil {
			return true
		}
	}
	return false
}

func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

func (g globs) any(ctx context.Context, patterns []pattern, name string) (bool, error) {
	for _, p := range patterns {
		if matched, err := p.matches(ctx, g.pace, name); matched || err != nil {
			return matched, err
		}
	}
	return false, nil
}
