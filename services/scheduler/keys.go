package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

const (
	releaseTimeout = 5 * time.Second
	// keysAtOnce is how many of the concurrency keys that connectors wait for one look goes through, beside the keys that it was told of.
	keysAtOnce = 500
	// staleAtOnce is how many of the connectors that wait for keys one look checks for whether they still are to, and staleEvery the least time between two.
	staleAtOnce = 1000
	staleEvery  = time.Second
	// mostReleased is how many that wait for one key one look makes due.
	mostReleased = 500
	// mostHints bounds how many keys are remembered by name, and mostServed of how many is remembered whose turn was last.
	mostHints, mostServed = 10_000, 100_000
	// keyNotice begins a notification that names a concurrency key, and no type.
	keyNotice = "key:"
)

// places are the concurrency keys of one claim.
type places struct {
	of   map[int32][]string // of each connector that has any
	room map[string]int     // of each that has a limit
}

// findPlaces asks for the concurrency keys of those that are to be claimed, and returns those of all that go on: a connector whose keys Postgres
// refuses to tell, because of a run of it that cannot be ended, is refused. claims: the transaction claims them, and has their keys' turns.
func (s *Scheduler) findPlaces(
	ctx context.Context, tx pgx.Tx, how attempt, all []dueNow, claims bool, refuse func(dueNow, error) error,
) (*places, []dueNow, error) {
	var keyed []dueNow
	for _, d := range all {
		if d.row.HasKeys && d.runs() {
			keyed = append(keyed, d)
		}
	}
	p := &places{of: map[int32][]string{}, room: map[string]int{}}
	if len(keyed) == 0 {
		return p, all, nil
	}
	known, refused := map[string]bool{}, map[int32]bool{}
	var names []string
	err := write(ctx, tx, how, keyed, func(tx pgx.Tx, part []dueNow) error {
		ids := make([]int32, len(part))
		for i, d := range part {
			ids[i] = d.row.ID
		}
		found, err := s.queries.WithTx(tx).KeysOf(ctx, ids)
		for _, k := range found {
			p.of[k.ID] = k.Keys
			for _, key := range k.Keys {
				if !known[key] {
					known[key] = true
					names = append(names, key)
				}
			}
		}
		return wrap("ask for concurrency keys", err)
	}, func(d dueNow, err error) error {
		refused[d.row.ID] = true
		return refuse(d, err)
	})
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(all, func(d dueNow) bool { return refused[d.row.ID] })
	rooms, err := s.queries.WithTx(tx).KeyRoom(ctx, dbgen.KeyRoomParams{Keys: names, Claims: claims})
	if err != nil {
		return nil, nil, wrap("ask for places of concurrency keys", err)
	}
	for _, r := range rooms {
		p.room[r.Key] = int(r.Room)
	}
	return p, all, nil
}

// take gives a connector that is claimed a place of each of its keys, or says which of them is full.
func (p *places) take(id int32, claims bool) (keys []string, full string) {
	for _, key := range p.of[id] {
		if room, limited := p.room[key]; limited && room <= 0 {
			return nil, key
		}
	}
	for _, key := range p.of[id] {
		if _, limited := p.room[key]; limited && claims {
			p.room[key]--
		}
	}
	return p.of[id], ""
}

// parked are connectors of a claim that found a key full.
type parked struct {
	ids  []int32
	keys []string
}

func (s *Scheduler) park(ctx context.Context, tx pgx.Tx, p parked) error {
	if len(p.ids) == 0 {
		return nil
	}
	_, err := s.queries.WithTx(tx).Park(ctx, dbgen.ParkParams{Ids: p.ids, FullKeys: p.keys})
	return wrap("wait for concurrency keys", err)
}

// keyring is how far the looks at concurrency keys have come. Nothing depends on it: without it they begin anew.
type keyring struct {
	looking   sync.Mutex // one look at a time; it guards checked and the times
	went      time.Time  // when the round went on
	checked   int32      // the connector up to which waiting ones are checked
	checkedAt time.Time

	mu     sync.Mutex
	hints  map[string]bool  // keys that may have a place
	served map[string]int32 // the owner who had the last turn of a key
	idle   map[string]int   // how many turns of a key in a row made connectors due, and none of these was claimed
	after  string           // the key that the round has come to
}

// hint has the next look begin with a key.
func (k *keyring) hint(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hints == nil {
		k.hints = map[string]bool{}
	}
	if len(k.hints) < mostHints {
		k.hints[key] = true
	}
}

// take returns what a look begins with: the named keys, and behind which key it goes on.
func (k *keyring) take() (hints []string, after string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.hints {
		hints = append(hints, key)
	}
	k.hints = nil
	return hints, k.after
}

// reach writes down how far the round has come; "" = it begins anew.
func (k *keyring) reach(key string, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.after, k.went = key, at // looking is locked
}

func (k *keyring) lastServed(key string) int32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if owner, ok := k.served[key]; ok {
		return owner
	}
	return -1 // before the system, which is 0
}

func (k *keyring) serve(key string, owner int32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.served == nil || len(k.served) >= mostServed {
		k.served = map[string]int32{}
	}
	k.served[key] = owner
}

// turn is how many of the connectors that wait for a key with room its next turn makes due: twice as many after each turn whose connectors were not claimed.
// These may find another key full, or the cap of their type, and a connector behind them may not.
func (k *keyring) turn(key string, room int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return min(min(room, mostReleased)<<min(k.idle[key], 9), mostReleased)
}

// turned writes down that a turn of a key has made some due.
func (k *keyring) turned(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.idle == nil || len(k.idle) >= mostServed {
		k.idle = map[string]int{}
	}
	k.idle[key]++
}

// claimed writes down that somebody with these keys is claimed, or that they have no place.
func (k *keyring) claimed(keys ...string) {
	if len(keys) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, key := range keys {
		delete(k.idle, key)
	}
}

// releaseWaiting makes those due that wait for a concurrency key which has a place, and those that are to wait no longer. It says after how long to
// look again; 0 = nobody waits. What fails, fails for its key: the others go on, and so does the look at what is due.
func (s *Scheduler) releaseWaiting(ctx context.Context) (again time.Duration) {
	k := &s.keyring
	k.looking.Lock()
	defer k.looking.Unlock()
	failed := func(what string, err error) {
		if ctx.Err() == nil {
			s.metrics.tickErrors.Inc()
			s.log.Warn("connectors that wait for a concurrency key wait longer", "step", what, "err", err)
			again = sooner(again, pollEvery)
		}
	}
	began := time.Now()
	hints, after := k.take()
	most := int32(keysAtOnce)
	if len(hints) > 0 && began.Sub(k.went) < turnEvery { // each verdict may be told of
		most = 0
	}
	keys, err := deadline.Get(ctx, "scheduler.waiting_keys", queryTimeout, func(ctx context.Context) ([]dbgen.WaitingKeysRow, error) {
		return s.queries.WaitingKeys(ctx, dbgen.WaitingKeysParams{Hints: hints, After: after, Most: most})
	})
	if err != nil {
		failed("look for keys", err)
		return again
	}
	if len(keys) == 0 && after == "" && most > 0 {
		return 0
	}
	again = pollEvery
	passed, late, done := int32(0), false, map[string]bool{}
	for i, key := range keys {
		if late = i > 0 && time.Since(began) > s.lookTime/4; late {
			again = turnEvery
			for _, rest := range keys[i:] {
				if rest.Named {
					k.hint(rest.Key)
				}
			}
			break
		}
		if !key.Named {
			passed, after = passed+1, key.Key
		}
		if key.Room <= 0 {
			k.claimed(key.Key)
			continue
		}
		if done[key.Key] {
			continue
		}
		done[key.Key] = true
		n, err := s.releaseKey(ctx, key.Key, k.turn(key.Key, int(key.Room)))
		if err != nil {
			failed("key "+key.Key, err)
		}
		if n > 0 && n < int(key.Room) { // more than one look makes due, or an owner has fewer than a share
			again = turnEvery
		}
		if n > 0 {
			k.turned(key.Key)
		}
	}
	switch {
	case most == 0:
	case late || passed == most:
		again = turnEvery
		k.reach(after, began)
	default:
		k.reach("", began) // round
	}
	if began.Sub(k.checkedAt) >= staleEvery {
		k.checkedAt = began
		if err := s.releaseStale(ctx); err != nil {
			failed("check who waits", err)
		}
	}
	return again
}

// releaseKey makes up to n due that wait for a key.
func (s *Scheduler) releaseKey(ctx context.Context, key string, n int) (released int, err error) {
	err = deadline.Do(ctx, "scheduler.release_key", releaseTimeout, func(ctx context.Context) error {
		return s.batch(ctx, func(tx pgx.Tx, how attempt) error {
			rows, err := s.queries.WithTx(tx).LockWaiting(ctx, dbgen.LockWaitingParams{
				FullKey: key, Room: int32(n), Served: s.keyring.lastServed(key), Refused: s.unreleased.skipped(time.Now()),
			})
			if err != nil || len(rows) == 0 {
				return wrap("lock those whose turn it is", err)
			}
			ids := make([]int32, len(rows))
			for i, r := range rows {
				ids[i] = r.ID
			}
			released, err = s.unpark(ctx, tx, how, ids)
			s.keyring.serve(key, rows[len(rows)-1].UserID)
			return err
		})
	})
	return released, err
}

// releaseStale makes those due, of the next that wait, that are to wait for their key no longer, whatever room it has.
func (s *Scheduler) releaseStale(ctx context.Context) error {
	return deadline.Do(ctx, "scheduler.check_waiting", releaseTimeout, func(ctx context.Context) error {
		return s.batch(ctx, func(tx pgx.Tx, how attempt) error {
			row, err := s.queries.WithTx(tx).LockStale(ctx, dbgen.LockStaleParams{
				After: s.keyring.checked, Most: staleAtOnce, Refused: s.unreleased.skipped(time.Now()),
			})
			if err != nil {
				return wrap("look for those that are to wait no longer", err)
			}
			if _, err = s.unpark(ctx, tx, how, row.Stale); err != nil {
				return err
			}
			s.keyring.checked = row.Last // 0 = from the first on
			return nil
		})
	})
}

// unpark makes connectors due that wait for a key. A connector that Postgres refuses to write is left out for some time.
func (s *Scheduler) unpark(ctx context.Context, tx pgx.Tx, how attempt, ids []int32) (n int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	err = write(ctx, tx, how, ids, func(tx pgx.Tx, part []int32) error {
		released, err := s.queries.WithTx(tx).Unpark(ctx, part)
		if err == nil {
			n += int(released)
			for _, id := range part {
				s.unreleased.forget(id)
			}
		}
		return wrap("end the wait for a concurrency key", err)
	}, func(id int32, err error) error {
		if isNew, _ := s.unreleased.add(id, time.Now()); isNew {
			s.log.Error("a connector that waits for a concurrency key cannot be made due; the others go on", "connector", id, "err", err)
		}
		return nil
	})
	return n, err
}

// measureKeys counts who waits for concurrency keys.
func (s *Scheduler) measureKeys(ctx context.Context) error {
	row, err := s.queries.KeysWaited(ctx)
	if err != nil {
		return wrap("count who waits for concurrency keys", err)
	}
	m := &s.metrics.backlog
	m.keyWaiting.Set(float64(row.Waiting))
	m.keysWaited.Set(float64(row.Keys))
	m.oldestKeyWait.Set(row.Oldest)
	m.keyPlaces.Set(float64(row.Places))
	return nil
}
