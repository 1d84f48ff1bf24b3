package scheduler

// comes ticks until an owner has a place, and returns how often it had to. Each tick but the last asks to look again soon.
func (s *stage) comes(scheduler *Scheduler, owner, most int) (ticks int) {
	s.Helper()
	for ticks = 1; ticks <= most; ticks++ {
		pause, err := scheduler.tick(s.Context())
		s.do(err)
		if one[int](s, inFlightOf, owner) > 0 {
			return ticks
		}
		if pause != turnEvery {
			s.Fatalf("after %d ticks it looks again after %s", ticks, pause)
		}
	}
	s.Fatalf("its turn did not come in %d ticks", most)
	return 0
}
