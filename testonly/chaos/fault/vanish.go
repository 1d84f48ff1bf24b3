package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/echomind/sync/testonly/chaos/world"
)

// standing are the named lines on which a machine vanishes: it holds a transaction, and neither ends it nor hangs up.
var standing = []struct {
	name, line string
	loses      Loss
}{
	{"semantic.storing", "while it stores", Loss{}},
	{"scheduler.claiming", "while it claims", Loss{}},
	{"worker.fetching", "while it fetches", Loss{Workers: true}},
	{"api.batch", "while it works off an operation on many", Loss{}},
}

// arming keeps two faults from arming one point at the same time.
var arming sync.Map

func armed(point string) (unlock func()) {
	lock, _ := arming.LoadOrStore(point, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	return lock.(*sync.Mutex).Unlock
}

func vanishing() []Fault {
	var all []Fault
	for _, s := range standing {
		all = append(all, Fault{
			Name: "a machine vanishes " + s.line, Loses: s.loses, Long: true,
			Inject: func(ctx context.Context, f *Field) error { return f.vanish(ctx, s.name) },
		})
	}
	return all
}

// vanish stops the next process that comes by a point, and makes its connections silent for ever. Nothing closes them, so
// that its servers have to find out by themselves. It never goes on.
func (f *Field) vanish(ctx context.Context, point string) error {
	unlock := armed(point)
	stopped, err := f.stopAt(ctx, point)
	unlock()
	if err != nil {
		return err
	}
	stopped.Postgres.Strand()
	for _, way := range stopped.NATS {
		way.Strand()
	}
	defer stopped.Kill()
	sleep(ctx, max(f.Long, freeze))
	return nil
}

// stopAt waits for the process that stops at a point.
func (f *Field) stopAt(ctx context.Context, point string) (*world.Process, error) {
	at := filepath.Join(f.World.Failpoints, point)
	if err := os.WriteFile(at, []byte("stop"), 0o644); err != nil {
		return nil, wrap("arm a fail point", err)
	}
	for until := time.Now().Add(armedFor); time.Now().Before(until) && ctx.Err() == nil; sleep(ctx, 50*time.Millisecond) {
		taken, err := filepath.Glob(at + ".taken.*")
		if err != nil {
			return nil, wrap("look for who came by", err)
		}
		for _, file := range taken {
			pid, _ := strconv.Atoi(file[strings.LastIndexByte(file, '.')+1:])
			for _, p := range f.World.Processes {
				if order, err := os.ReadFile(file); err == nil && string(order) == "stop" && p.PID() == pid {
					return p, wrap("take the fail point away", os.Remove(file))
				}
			}
		}
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, wrap("disarm a fail point", err)
	}
	return nil, fmt.Errorf("%w %s within %s", ErrNobody, point, armedFor)
}
