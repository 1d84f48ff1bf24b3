package campaign

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/world"
)

// lookBound is what a look of a scheduler or of semantic may take while nothing is broken.
const lookBound = 4 * time.Second

// sweepBound is the same for the looks that work a queue off until their time is over. Who completes a run brings what waits to be
// indexed before it.
const sweepBound = 10 * time.Second

var sweepLooks = []string{`look="leftovers"`, `look="unnamed chunks"`, `look="stored runs"`}

// LookPause is how long after the last fault the looks are over that met it.
const LookPause = 10 * time.Second

// looksTook are the histograms of their looks.
var looksTook = regexp.MustCompile(`^(scheduler_tick|scheduler_look|semantic_look)_duration_seconds_(bucket|count)(\{[^}]*\})? (\S+)$`)

// Looks are, by process and look, how many there were, and how many within the bound.
type Looks map[string]took

type took struct {
	all, within float64
	// le is the bucket that within is of: the first that holds the bound.
	le float64
}

// Looked asks every scheduler and semantic.
func Looked(ctx context.Context, w *world.World) Looks {
	found := Looks{}
	for _, p := range w.Named("scheduler", "semantic") {
		for _, line := range metricsOf(ctx, p) {
			match := looksTook.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			value, err := strconv.ParseFloat(match[4], 64)
			if err != nil {
				continue
			}
			labels, le := splitBound(match[3])
			name := fmt.Sprintf("%s (process %d), %s %s", p.Name, p.PID(), match[1], labels)
			l, known := found[name]
			if !known {
				l.le = math.Inf(1)
			}
			switch {
			case match[2] == "count":
				l.all = value
			case le >= boundOf(labels) && le <= l.le:
				l.within, l.le = value, le
			}
			found[name] = l
		}
	}
	return found
}

// boundOf is what a look may take, in seconds.
func boundOf(labels string) float64 {
	if slices.ContainsFunc(sweepLooks, func(look string) bool { return strings.Contains(labels, look) }) {
		return sweepBound.Seconds()
	}
	return lookBound.Seconds()
}

// splitBound takes a bucket's bound out of its labels.
func splitBound(labels string) (rest string, le float64) {
	var kept []string
	le = math.Inf(1)
	for _, label := range strings.Split(strings.Trim(labels, "{}"), ",") {
		if text, isBound := strings.CutPrefix(label, "le="); isBound {
			le, _ = strconv.ParseFloat(strings.ReplaceAll(strings.Trim(text, `"`), "+Inf", "Inf"), 64)
		} else if label != "" {
			kept = append(kept, label)
		}
	}
	return strings.Join(kept, ","), le
}

func metricsOf(ctx context.Context, p *world.Process) (lines []string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTP+"/metrics", nil)
	if err != nil {
		return nil
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return lines
}

// Since holds the looks of a time in which nothing was broken against their bound.
func (l Looks) Since(before Looks) audit.Finding {
	f := audit.Finding{
		Promise: 1, Name: "looks are short",
		How: fmt.Sprintf("once everything is mended no look of a scheduler or of semantic takes more than %s, and none that works a queue off more than %s", lookBound, sweepBound),
	}
	for name, now := range l {
		was := before[name]
		f.Checked += int(now.all - was.all)
		if over := (now.all - now.within) - (was.all - was.within); over > 0 {
			violated(&f, fmt.Sprintf("%s: %.0f looks took longer", name, over))
		}
	}
	return f
}
