package observability

import (
	"regexp"
	"slices"
	"strings"
)

// Named has the names in an expression: metrics, and labels in selectors, `by` and `on`.
type Named struct {
	// Metrics maps each metric to the labels that its selectors match.
	Metrics map[string][]string
	// Grouped are labels of `by`, `on`, `without` and `ignoring`: some metric of the expression must have them.
	Grouped []string
}

var (
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	ranges   = regexp.MustCompile(`\[[^\]]*\]|\boffset\s+[0-9a-z]+`)
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\}|\()?`)
	matched  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)`)
	words    = []string{"and", "or", "unless", "by", "on", "without", "ignoring", "bool", "inf", "nan"}
)

// Names reads an expression. Prometheus's own parser has more dependencies than all services together. A word that Names
// mistakes for a metric fails a test, and promtool reads the same rules.
func Names(expr string) Named {
	named := Named{Metrics: map[string][]string{}}
	rest := ranges.ReplaceAllString(quoted.ReplaceAllString(expr, `""`), " ")
	for _, group := range grouping.FindAllStringSubmatch(rest, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			if label = strings.TrimSpace(label); label != "" {
				named.Grouped = append(named.Grouped, label)
			}
		}
	}
	rest = grouping.ReplaceAllString(rest, " ")
	for _, found := range selector.FindAllStringSubmatch(rest, -1) {
		name, after := found[1], found[2]
		if after == "(" || slices.Contains(words, strings.ToLower(name)) || aggregation(name) {
			continue
		}
		labels := named.Metrics[name]
		for _, m := range matched.FindAllStringSubmatch(after, -1) {
			labels = append(labels, m[1])
		}
		named.Metrics[name] = labels
	}
	return named
}

// aggregation says that a word stands before its `by`, which has been cut out.
func aggregation(name string) bool {
	return slices.Contains([]string{"sum", "max", "min", "avg", "count", "topk", "bottomk", "quantile"}, name)
}
