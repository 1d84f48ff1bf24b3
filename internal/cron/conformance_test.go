package cron

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"
)

const conformance = "../../docs/conformance/cron.tsv"

// For every row: all slots after from and not after until, found by stepping through them, by asking at moments between them,
// and by counting.
func TestEverySlotOfTheConformanceFile(t *testing.T) {
	t.Parallel()
	file, err := os.Open(conformance)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines, rows, slots := bufio.NewScanner(file), map[string]int{}, 0
	lines.Buffer(nil, 1<<20)
	block, wrong := "", 0
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if name, found := strings.CutPrefix(line, "# block: "); found {
			block = name
		}
		if line == "" || line[0] == '#' {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) != 8 {
			t.Fatalf("line %d has %d columns", n, len(columns))
		}
		rows[block]++
		slots += len(strings.Fields(columns[7]))
		if problem := conforms(columns); problem != "" {
			t.Errorf("line %d, %s: %s", n, block, problem)
			if wrong++; wrong == 20 {
				t.Fatal("and so on")
			}
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	for _, block := range []string{"by hand", "days", "changes of the clocks", "default policies", "hash"} {
		if rows[block] == 0 {
			t.Errorf("block %s is empty", block)
		}
	}
	t.Logf("%d slots of %v rows", slots, rows)
}

func conforms(columns []string) string {
	value := func(i int) string { return strings.TrimPrefix(columns[i], "-") }
	spec := Spec{Zone: columns[0], Expression: columns[1], Gap: Gap(value(3)), Overlap: Overlap(value(4))}
	for _, digit := range columns[2] {
		spec.ID = spec.ID*10 + digit - '0'
	}
	schedule, err := Parse(spec)
	if columns[7] == "refused" {
		if err == nil {
			return "it is taken"
		}
		return ""
	}
	if err != nil {
		return err.Error()
	}
	from, until := instant(columns[5]), instant(columns[6])
	want := strings.Fields(value(7))
	at, last := from, time.Time{}
	for i := 0; ; i++ {
		next := schedule.Next(at)
		if i == len(want) {
			if within(next, until) {
				return "behind the last comes " + next.Format(time.RFC3339)
			}
			break
		}
		if !next.Equal(instant(want[i])) {
			return next.Format(time.RFC3339) + " instead of " + want[i]
		}
		if again := schedule.Next(at.Add(next.Sub(at) / 2)); !again.Equal(next) {
			return "asked between two slots, " + again.Format(time.RFC3339) + " instead of " + want[i]
		}
		at, last = next, next
	}
	if n := schedule.Count(from, until); n != len(want) {
		return "counted wrong"
	}
	if !schedule.Last(from, until).Equal(last) {
		return "the last is wrong"
	}
	return ""
}

func instant(text string) time.Time {
	at, _ := time.Parse(time.RFC3339, text)
	return at
}
