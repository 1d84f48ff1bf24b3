package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/bench/figures"
	"github.com/echomind/sync/testonly/bench/load"
	"github.com/echomind/sync/testonly/bench/ours"
)

const (
	// readers are how many users ask.
	readers = 100
	// beyond is how many times API_MAX_WATCHERS ask to watch.
	beyond = 10
	// slowShare is how many connections there are for each slow client.
	slowShare = 20
	// settle is for how long the API is asked before anything is measured: its connections plan their statements.
	settle = 2 * time.Second
)

// reader is a user who asks: a token, a session of the page, and what they see.
type reader struct {
	token, session string
	sees           []int32
}

// api measures mixed reads over many connectors, dispatch beside them, and those who watch.
func (s *session) api(ctx context.Context) ([]figures.Row, error) {
	system, dispatcher, err := s.system(ctx, "api", s.size.due)
	if err != nil {
		return nil, err
	}
	if err := system.Crowd(ctx, s.size.atRest); err != nil {
		return nil, err
	}
	api, err := load.Start(ctx, system.URL(), system.Bus(), s.size.streams/beyond)
	if err != nil {
		return nil, err
	}
	s.onClose(api.Stop)
	users, admin, err := s.readers(ctx, system, api)
	if err != nil {
		return nil, err
	}
	asks := mixed(api, users, admin)
	beside, paced, pacedBeside := "dispatch beside the reads", "dispatch of a thousand that become due a second", "the same beside the reads"
	g := figures.Group{
		Name: fmt.Sprintf("%d mixed reads a second for %d s of %d connectors", s.size.rate, s.size.seconds, s.size.atRest),
		Measurements: []figures.Measurement{
			s.reads(system, api, asks),
			one("dispatch alone", perSecond, func(ctx context.Context) (float64, error) { return dispatcher.Rate(ctx, free, s.size.due) }),
			one(beside, perSecond, func(ctx context.Context) (float64, error) { return s.beside(ctx, dispatcher, asks) }),
			one(paced, perSecond, func(ctx context.Context) (float64, error) { return dispatcher.Paced(ctx, free, s.size.due, func() {}) }),
			one(pacedBeside, perSecond, func(ctx context.Context) (rate float64, err error) {
				reads := s.asked(ctx, asks)
				rate, err = dispatcher.Paced(ctx, free, s.size.due, reads.begin)
				return rate, errors.Join(err, reads.end())
			}),
			s.besideSlow(api, users, asks),
			s.watchers(system, api, users),
		},
		// At its highest rate dispatch alone takes all that two processors have: what reads take of them, it has less.
		Ratios: []figures.Ratio{
			{Name: "dispatch beside the reads / alone", Of: beside, To: []string{"dispatch alone"}},
			{Name: "dispatch of a thousand a second beside the reads / alone", Of: pacedBeside, To: []string{paced}, AtLeast: 0.9, LongOnly: true},
		},
	}
	return s.measure(ctx, g)
}

// readers are users with their sessions; the last is a superadmin.
func (s *session) readers(ctx context.Context, system *ours.System, api *load.API) (users []reader, admin reader, err error) {
	client := load.Client()
	enter := func(user int, role identity.Role) (r reader, err error) {
		if r.token, err = system.Token(ctx, user, role); err != nil {
			return r, err
		}
		if r.sees, err = system.Seen(ctx, min(user, 9999)); err != nil {
			return r, err
		}
		asked, err := http.NewRequestWithContext(ctx, http.MethodPost, api.URL+"/sign-in", strings.NewReader(url.Values{"token": {r.token}}.Encode()))
		if err != nil {
			return r, err
		}
		asked.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, err := client.Do(asked)
		if err != nil {
			return r, err
		}
		for _, c := range answer.Cookies() {
			if strings.HasSuffix(c.Name, "echomind_session") {
				r.session = c.Name + "=" + c.Value
			}
		}
		if r.session == "" {
			return r, errors.Join(fmt.Errorf("user %d cannot sign in: %s", user, answer.Status), answer.Body.Close())
		}
		return r, answer.Body.Close()
	}
	for i := range readers {
		r, err := enter(2+100*i, identity.User)
		if err != nil {
			return nil, admin, err
		}
		users = append(users, r)
	}
	admin, err = enter(20_000, identity.Superadmin)
	return users, admin, err
}

// mixed are the reads, and how often each comes.
func mixed(api *load.API, users []reader, admin reader) []load.Ask {
	ask := func(name string, share int, who func(int) reader, isPage bool, path func(reader, int) string) load.Ask {
		return load.Ask{Name: name, Share: share, Make: func(ctx context.Context, i int) (*http.Request, error) {
			r := who(i)
			at := api.URL
			if !isPage {
				at += "/api/v1"
			}
			asked, err := http.NewRequestWithContext(ctx, http.MethodGet, at+path(r, i), nil)
			if err == nil && isPage {
				asked.Header.Set("Cookie", r.session)
			} else if err == nil {
				asked.Header.Set("Authorization", "Bearer "+r.token)
			}
			return asked, err
		}}
	}
	user := func(i int) reader { return users[i*7919%len(users)] }
	super := func(int) reader { return admin }
	fixed := func(path string) func(reader, int) string { return func(reader, int) string { return path } }
	of := func(below string) func(reader, int) string {
		return func(r reader, i int) string { return fmt.Sprintf("/connectors/%d%s", r.sees[i%len(r.sees)], below) }
	}
	return []load.Ask{
		ask("list", 15, user, false, fixed("/connectors")),
		ask("list, filtered", 10, user, false, fixed("/connectors?type=web&name=7")),
		ask("list by freshness", 5, user, false, fixed("/connectors?sort=freshness&page_size=25")),
		ask("one", 25, user, false, of("")),
		ask("why", 10, user, false, of("/why")),
		ask("runs", 10, user, false, of("/runs")),
		ask("documents", 10, user, false, of("/documents")),
		ask("page Sources", 6, user, true, fixed("/")),
		ask("superadmin: list", 3, super, false, fixed("/connectors")),
		ask("superadmin: list, filtered", 2, super, false, fixed("/connectors?status=ERROR")),
		ask("superadmin: status", 1, super, false, fixed("/status")),
		ask("superadmin: page Sources", 3, super, true, fixed("/")),
	}
}

// reads measures the reads, and what they cost.
func (s *session) reads(system *ours.System, api *load.API, asks []load.Ask) figures.Measurement {
	names := []figures.Figure{{Name: "reads answered", Unit: perSecond}, {Name: "all reads, p50", Unit: "ms"}, {Name: "all reads, p99", Unit: "ms"}, {Name: "answers other than 200", Unit: "each"},
		{Name: "processor: API", Unit: "ms each"}, {Name: "processor: Postgres", Unit: "ms each"}, {Name: "processor: generator, broker", Unit: "ms each"}}
	for _, a := range asks {
		names = append(names, figures.Figure{Name: a.Name + ", p50", Unit: "ms"}, figures.Figure{Name: a.Name + ", p99", Unit: "ms"})
	}
	return figures.Measurement{Figures: names, Take: func(ctx context.Context) ([]float64, error) {
		postmaster, err := system.Postmaster()
		if err != nil {
			return nil, err
		}
		if _, err := load.Run(ctx, load.Client(), asks, s.size.rate, settle); err != nil {
			return nil, err
		}
		api0, self0, postgres0 := api.CPU(postmaster)
		result, err := load.Run(ctx, load.Client(), asks, s.size.rate, time.Duration(s.size.seconds)*time.Second)
		api1, self1, postgres1 := api.CPU(postmaster)
		if err != nil {
			return nil, err
		}
		all := result.All()
		refused := 0
		for name, n := range result.Refused {
			fmt.Fprintln(os.Stderr, name, n)
			refused += n
		}
		each := 1000 / float64(len(all))
		values := []float64{result.Rate, figures.Quantile(all, 0.5), figures.Quantile(all, 0.99), float64(refused), each * (api1 - api0), each * (postgres1 - postgres0), each * (self1 - self0)}
		for _, a := range asks {
			values = append(values, result.P(a.Name, 0.5), result.P(a.Name, 0.99))
		}
		return values, nil
	}}
}

// beside is the rate of dispatch while the API is asked.
func (s *session) beside(ctx context.Context, dispatcher *ours.Dispatcher, asks []load.Ask) (float64, error) {
	if err := dispatcher.Prepare(ctx, free); err != nil {
		return 0, err
	}
	reads := s.asked(ctx, asks)
	reads.begin()
	rate, err := dispatcher.Prepared(ctx, s.size.due)
	return rate, errors.Join(err, reads.end())
}

// background are the reads, while something else is measured.
type background struct {
	ask   func() (load.Result, error)
	stop  func()
	ended chan error // nil: they did not begin
}

// asked are reads that begin and end when they are told.
func (s *session) asked(ctx context.Context, asks []load.Ask) *background {
	ctx, stop := context.WithCancel(ctx)
	return &background{stop: stop, ask: func() (load.Result, error) {
		return load.Run(ctx, load.Client(), asks, s.size.rate, 5*time.Minute)
	}}
}

func (b *background) begin() {
	b.ended = make(chan error, 1)
	go func() {
		result, err := b.ask()
		refused := 0
		for _, n := range result.Refused {
			refused += n
		}
		if all := len(result.All()); err == nil && refused*10 > all {
			err = fmt.Errorf("of %d reads beside what was measured %d were not answered", all, refused)
		}
		b.ended <- err
	}()
	time.Sleep(settle)
}

// end ends them. Where they have ended before, or were not answered, nothing was measured beside them.
func (b *background) end() error {
	defer b.stop()
	if b.ended == nil {
		return nil
	}
	select {
	case err := <-b.ended:
		return errors.Join(errors.New("the reads ended before what was measured beside them"), err)
	default:
		b.stop()
		return <-b.ended
	}
}

// besideSlow measures the reads beside clients that ask for pages and do not read them.
func (s *session) besideSlow(api *load.API, users []reader, asks []load.Ask) figures.Measurement {
	sessions := make([]string, len(users))
	for i, u := range users {
		sessions[i] = u.session
	}
	clients := s.size.streams / slowShare
	fields := []figures.Figure{{Name: fmt.Sprintf("reads beside %d slow clients, p99", clients), Unit: "ms"}, {Name: "API with slow clients", Unit: "MB"}}
	return figures.Measurement{Figures: fields, Take: func(ctx context.Context) ([]float64, error) {
		slow, err := api.Slow(ctx, sessions, clients)
		if err != nil {
			return nil, err
		}
		defer slow.Close()
		time.Sleep(settle)
		result, err := load.Run(ctx, load.Client(), asks, s.size.rate, time.Duration(s.size.seconds)*time.Second)
		if err != nil {
			return nil, err
		}
		mb, err := api.MB()
		return []float64{figures.Quantile(result.All(), 0.99), mb}, err
	}}
}

// watchers measures what those who watch cost, and what those beyond the limit are answered.
func (s *session) watchers(system *ours.System, api *load.API, users []reader) figures.Measurement {
	tokens := []string{}
	for _, u := range users {
		tokens = append(tokens, u.token)
	}
	values := map[string]float64{}
	units := map[string]string{
		"1 API without watchers": "MB", "2 API with as many watchers as may be": "MB", "3 watchers": "each", "4 connections that LISTEN": "each", "5 connections of the API to Postgres": "each",
		"6 beyond the limit: 503": "each", "6 beyond the limit: closed without an answer": "each", "6 beyond the limit: other answers": "each", "7 API with them": "MB", "8 watchers that were left alone": "each",
		"9 silent connections: not known to be closed": "each", "9 watchers beside silent connections": "each",
	}
	names := slices.Sorted(maps.Keys(units))
	var fields []figures.Figure
	for _, name := range names {
		fields = append(fields, figures.Figure{Name: name[2:], Unit: units[name]})
	}
	return figures.Measurement{Figures: fields, Take: func(ctx context.Context) ([]float64, error) {
		err := s.watched(ctx, system, api, tokens, values)
		all := make([]float64, len(names))
		for i, name := range names {
			all[i] = values[name]
		}
		return all, err
	}}
}

func (s *session) watched(ctx context.Context, system *ours.System, api *load.API, tokens []string, values map[string]float64) (err error) {
	most := s.size.streams / beyond
	if values["1 API without watchers"], err = api.MB(); err != nil {
		return err
	}
	first, err := api.Watch(ctx, tokens, most)
	if err != nil {
		return err
	}
	defer first.Close()
	time.Sleep(settle)
	values["3 watchers"] = float64(first.Open)
	if values["2 API with as many watchers as may be"], err = api.MB(); err != nil {
		return err
	}
	if values["4 connections that LISTEN"], values["5 connections of the API to Postgres"], err = system.Listening(ctx); err != nil {
		return err
	}
	more, err := api.Watch(ctx, tokens, s.size.streams-most)
	if err != nil {
		return err
	}
	defer more.Close()
	values["6 beyond the limit: 503"], values["6 beyond the limit: closed without an answer"] = float64(more.Unavailable), float64(more.Refused)
	values["6 beyond the limit: other answers"] = float64(more.Other + more.Open)
	if values["7 API with them"], err = api.MB(); err != nil {
		return err
	}
	values["8 watchers that were left alone"] = float64(first.Alive())
	more.Close()
	silent, err := api.Silent(ctx, s.size.streams-most)
	if err != nil {
		return err
	}
	defer silent.Close()
	values["9 silent connections: not known to be closed"] = float64(silent.Alive())
	values["9 watchers beside silent connections"] = float64(first.Alive())
	return nil
}
