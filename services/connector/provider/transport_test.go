package provider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/guard"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector/provider"
)

var ok = answer{status: 200, body: "fine"}

func TestTheHeaderOfAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, guard.MaxHeaderBytes, provider.Transport().MaxResponseHeaderBytes)
}

func TestWhatPassesIsTriedAgainUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]answer{
		"500": {status: 500}, "502": {status: 502}, "504": {status: 504}, "503 without a word": {status: 503},
		"408": {status: 408}, "a reset": {reset: true},
		"429":                       {status: 429, header: map[string]string{"Retry-After": "1"}},
		"503 that asks to wait":     {status: 503, header: map[string]string{"Retry-After": "2.128"}},
		"509":                       {status: 509},
		"Google's 403 for the user": google(403, "userRateLimitExceeded", "slow down"),
		"Google's 403":              google(403, "rateLimitExceeded", "slow down"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, first, first, ok)
			c, clock := client(t, s, nil)
			status, body, err := get(t, c, s.URL)
			require.NoError(t, err)
			require.Equal(t, 200, status)
			require.Equal(t, "fine", body)
			require.Len(t, s.requests(), 3)
			require.NotEmpty(t, clock.sleeps())
		})
	}
	for name, first := range map[string]answer{
		"Graph's activityLimitReached": microsoft(403, "activityLimitReached", ""),
		"within":                       microsoft(400, "generalException", "throttledRequest"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, first, ok)
			c, _ := client(t, s, func(o *provider.Options) { o.Dialect = provider.Microsoft })
			status, _, err := get(t, c, s.URL)
			require.NoError(t, err)
			require.Equal(t, 200, status)
		})
	}
}

func TestWhatIsAboutTheRequestIsTheSources(t *testing.T) {
	t.Parallel()
	for _, a := range []answer{
		{status: 404}, {status: 410, header: map[string]string{"Location": "https://x.example/start"}}, {status: 304}, {status: 501},
		google(403, "insufficientFilePermissions", "not yours"), google(403, "cannotDownloadAbusiveFile", "malware"),
	} {
		s := serve(t, a)
		c, clock := client(t, s, nil)
		status, body, err := get(t, c, s.URL)
		require.NoError(t, err)
		require.Equal(t, a.status, status)
		require.Equal(t, a.body, body, "the answer can still be read")
		require.Len(t, s.requests(), 1)
		require.Empty(t, clock.sleeps())
	}
}

func TestTriesEndAndThenTheAnswerIsTheSources(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{status: 500, body: strings.Repeat("x", 1<<20)})
	c, clock := client(t, s, nil)
	status, body, err := get(t, c, s.URL)
	require.NoError(t, err)
	require.Equal(t, 500, status)
	require.Len(t, body, 64<<10, "of an error no more is read")
	require.Len(t, s.requests(), 5)
	pauses := clock.sleeps()
	require.Len(t, pauses, 4)
	for i, pause := range pauses {
		most := 500 * time.Millisecond << i
		require.LessOrEqual(t, pause, most)
		require.GreaterOrEqual(t, pause, most/2)
	}

	s = serve(t, answer{reset: true})
	c, _ = client(t, s, nil)
	_, _, err = get(t, c, s.URL)
	require.Error(t, err)
	require.Len(t, s.requests(), 5)
}

func TestRetryAfterIsWaitedForByEverybodyOfTheAccount(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"seconds":   {map[string]string{"Retry-After": "120"}, 2 * time.Minute},
		"fractions": {map[string]string{"Retry-After": "2.5"}, 2500 * time.Millisecond},
		"a date by the provider's own clock": {map[string]string{
			"Retry-After": now.Add(90 * time.Second).Format(http.TimeFormat), "Date": now.Format(http.TimeFormat),
		}, 90 * time.Second},
	} {
		s := serve(t, answer{status: 429, header: c.header}, ok)
		q := &quota{}
		client, clock := client(t, s, func(o *provider.Options) { o.Quota = q })
		_, body, err := get(t, client, s.URL)
		require.NoError(t, err, name)
		require.Equal(t, "fine", body)
		require.Equal(t, []time.Duration{c.want}, q.blocked, name)
		require.Equal(t, []time.Duration{c.want}, clock.sleeps(), name)
		require.Equal(t, 2, q.taken, "each try takes from the quota")
	}
	for name, value := range map[string]string{"nonsense": "soon", "the past": now.Add(-time.Hour).Format(http.TimeFormat), "negative": "-3", "NaN": "NaN"} {
		s := serve(t, answer{status: 429, header: map[string]string{"Retry-After": value}}, ok)
		client, clock := client(t, s, nil)
		_, _, err := get(t, client, s.URL)
		require.NoError(t, err, name)
		require.Len(t, clock.sleeps(), 1)
		require.LessOrEqual(t, clock.sleeps()[0], time.Second, name)
		require.GreaterOrEqual(t, clock.sleeps()[0], time.Second/2, name)
	}
}

func TestAWaitThatIsTooLongEndsTheSyncAndSaysSo(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{status: 429, header: map[string]string{"Retry-After": "3600"}, body: `{"error":{"code":"TooManyRequests","message":"too many"}}`})
	q := &quota{}
	c, clock := client(t, s, func(o *provider.Options) { o.Quota, o.Dialect = q, provider.Microsoft })
	_, _, err := get(t, c, s.URL)
	var e *provider.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, &provider.Error{Provider: "Microsoft Graph", Status: 429, Reason: "TooManyRequests", Message: "too many", RetryAfter: time.Hour,
		Wait: time.Hour, WaitReason: "Microsoft asked us to wait"}, e)
	require.Equal(t, "Microsoft Graph answered 429 TooManyRequests: too many; it asks to wait 1h0m0s", e.Error())
	require.True(t, e.EndsSync())
	require.Empty(t, clock.sleeps())
	require.Equal(t, []time.Duration{time.Hour}, q.blocked, "others of the account know")
	require.False(t, permanent(err))

	s = serve(t, google(403, "dailyLimitExceeded", "The daily quota is used up"))
	c, clock = client(t, s, func(o *provider.Options) { o.Quota = q })
	_, _, err = get(t, c, s.URL)
	require.ErrorAs(t, err, &e)
	require.Equal(t, "dailyLimitExceeded", e.Reason)
	require.Empty(t, clock.sleeps())
	require.Equal(t, 30*time.Minute, q.blocked[1])
	require.Equal(t, 30*time.Minute, e.Wait)
	require.Equal(t, "Google Drive allows this account no more requests for now; we wait", e.WaitReason)

	s = serve(t, answer{status: 429, header: map[string]string{"Retry-After": "86400000000000000000"}})
	c, _ = client(t, s, nil)
	_, _, err = get(t, c, s.URL)
	require.ErrorAs(t, err, &e)
	require.Equal(t, 24*time.Hour, e.RetryAfter, "no account is locked for ever")

	s = serve(t, answer{status: 429})
	c, clock = client(t, s, nil)
	_, _, err = get(t, c, s.URL)
	require.ErrorAs(t, err, &e)
	require.Len(t, s.requests(), 10, "nor asked for ever")
	require.Len(t, clock.sleeps(), 9)
	require.GreaterOrEqual(t, e.Wait, time.Minute, "a provider that never says how long is left alone for a while")

	s = serve(t, answer{status: 500, header: map[string]string{"Retry-After": "3600"}})
	q = &quota{}
	c, clock = client(t, s, func(o *provider.Options) { o.Quota, o.Tokens = q, provider.NewTokens(&grant{life: 3600}, nil) })
	_, _, err = get(t, c, s.URL)
	require.ErrorAs(t, err, &e)
	require.Equal(t, time.Hour, e.Wait, "an outage of the API that has an end")
	require.Len(t, s.requests(), 1)
	require.Empty(t, clock.sleeps())
	require.Empty(t, q.blocked, "of one request, which says nothing of others")
}

func TestWhoWaitsForTheProviderSaysSoBefore(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{status: 429, header: map[string]string{"Retry-After": "12"}}, answer{status: 503, header: map[string]string{"Retry-After": "30"}},
		answer{status: 502, header: map[string]string{"Retry-After": "40"}}, ok)
	var said []string
	c, clock := client(t, s, func(o *provider.Options) {
		o.Dialect, o.Tokens = provider.Microsoft, provider.NewTokens(&grant{life: 3600}, nil)
		o.Waits = func(_ context.Context, wait time.Duration, asked string) (func(), error) {
			said = append(said, asked+" "+wait.String())
			return func() { said = append(said, "over") }, nil
		}
	})
	_, _, err := get(t, c, s.URL)
	require.NoError(t, err)
	require.Equal(t, []string{
		"Microsoft asked us to wait 12s", "over", "Microsoft asked us to wait 30s", "over", "Microsoft asked us to wait 40s", "over",
	}, said)
	require.Equal(t, []time.Duration{12 * time.Second, 30 * time.Second, 40 * time.Second}, clock.sleeps())
}

// The token's host is the API's; content comes from others, or by URLs that need none.
func TestAnOutageOfAHostThatIsNotTheAPIsIsAboutWhatWasAskedForAndNotTheAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status, requests int
		asks             string
		slept            []time.Duration
	}{
		"500 that asks for too long":  {500, 1, "3600", nil},
		"503 that asks for too long":  {503, 1, "3600", nil},
		"503 that asks for a while":   {503, 5, "30", []time.Duration{30 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second}},
		"504 that asks for 3 minutes": {504, 1, "180", nil},
	} {
		for _, hasTokens := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, tokens %v", name, hasTokens), func(t *testing.T) {
				t.Parallel()
				s := serve(t, answer{status: c.status, header: map[string]string{"Retry-After": c.asks}})
				q := &quota{}
				client, clock := client(t, s, func(o *provider.Options) {
					o.Quota, o.Endpoint = q, "https://api.example"
					if hasTokens {
						o.Tokens = provider.NewTokens(&grant{life: 3600}, nil)
					}
				})
				status, _, err := get(t, client, s.URL)
				require.NoError(t, err)
				require.Equal(t, c.status, status, "it is the source's")
				require.Len(t, s.requests(), c.requests)
				require.Equal(t, c.slept, clock.sleeps())
				require.Empty(t, q.blocked, "nobody else waits")
			})
		}
	}
}

func TestARunThatMayWaitNoMoreIsToldAtOnce(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 503, 502} {
		s := serve(t, answer{status: status, header: map[string]string{"Retry-After": "30"}}, ok)
		q := &quota{}
		c, clock := client(t, s, func(o *provider.Options) {
			o.Quota, o.Tokens, o.Waits = q, provider.NewTokens(&grant{life: 3600}, nil), refuseWaits
		})
		_, _, err := get(t, c, s.URL)
		require.ErrorIs(t, err, errWaitedEnough)
		requireEndsSync(t, err)
		require.Empty(t, clock.sleeps())
		require.Len(t, s.requests(), 1)
		require.Equal(t, status != 502, len(q.blocked) == 1, "others of the account know")
	}
}

func TestWithoutATokenTheSyncEndsWhateverWasAskedFor(t *testing.T) {
	t.Parallel()
	s := serve(t, ok)
	away := errors.New("the token endpoint is away")
	g := &grant{err: away}
	c, _ := client(t, s, func(o *provider.Options) { o.Tokens = provider.NewTokens(g, nil) })
	_, _, err := get(t, c, s.URL)
	requireEndsSync(t, err)
	require.ErrorIs(t, err, away)
	require.Empty(t, s.requests())
}

func TestOnlyWhatMayBeRepeatedIs(t *testing.T) {
	t.Parallel()
	for _, a := range []answer{{status: 500}, {reset: true}, {status: 429}} {
		s := serve(t, a)
		c, clock := client(t, s, nil)
		resp, err := c.Post(s.URL, "text/plain", strings.NewReader("x"))
		if err == nil {
			_ = resp.Body.Close()
		}
		require.Len(t, s.requests(), 1)
		require.Empty(t, clock.sleeps())
	}
}

func TestTheTokenGoesToTheAPIsHostAlone(t *testing.T) {
	t.Parallel()
	other := serve(t, ok)
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	s := serve(t, answer{status: 302, header: map[string]string{"Location": elsewhere + "/file?tempauth=abc"}})
	c, _ := client(t, s, func(o *provider.Options) { o.Tokens = provider.NewTokens(&grant{life: 3600}, nil) })
	_, body, err := get(t, c, s.URL+"/item?secret=1")
	require.NoError(t, err)
	require.Equal(t, "fine", body)
	require.Equal(t, "Bearer t1", s.requests()[0].Header.Get("Authorization"))
	require.Contains(t, s.requests()[0].UserAgent(), "EchoMind")
	require.Empty(t, other.requests()[0].Header.Get("Authorization"))
	require.Empty(t, other.requests()[0].Referer(), "it would say where the redirect came from")

	loop := serve(t, ok)
	loop.answers = []answer{{status: 302, header: map[string]string{"Location": loop.URL}}}
	c, _ = client(t, loop, nil)
	_, _, err = get(t, c, loop.URL)
	require.ErrorContains(t, err, "redirect is refused")
	require.Len(t, loop.requests(), 5)
}

func TestATokenThatIsRefusedIsReplacedOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{status: 401}, ok)
	g := &grant{life: 3600}
	c, _ := client(t, s, func(o *provider.Options) { o.Tokens = provider.NewTokens(g, nil) })
	_, body, err := get(t, c, s.URL)
	require.NoError(t, err)
	require.Equal(t, "fine", body)
	require.Equal(t, "Bearer t2", s.requests()[1].Header.Get("Authorization"))

	s = serve(t, answer{status: 401, body: `{"error":{"code":"InvalidAuthenticationToken","message":"gone"}}`})
	c, _ = client(t, s, func(o *provider.Options) {
		o.Tokens, o.Dialect = provider.NewTokens(&grant{life: 3600}, nil), provider.Microsoft
	})
	_, _, err = get(t, c, s.URL)
	require.ErrorContains(t, err, "connect this Microsoft account again with `echomind connect microsoft`")
	require.True(t, permanent(err))
	require.Len(t, s.requests(), 2)

	s = serve(t, answer{status: 401})
	c, _ = client(t, s, nil)
	status, _, err := get(t, c, s.URL)
	require.NoError(t, err)
	require.Equal(t, 401, status, "without a token it is about the URL")
}

func TestADownloadThatStandsStillEndsWithItsDeadlinesName(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/drip" {
			for range time.NewTicker(5 * time.Millisecond).C {
				if _, err := io.WriteString(w, "."); err != nil || r.Context().Err() != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	const short = 50 * time.Millisecond
	for path, c := range map[string]struct {
		limits provider.Limits
		name   string
	}{
		"/stall":  {provider.Limits{Idle: short}, "google_drive.read"},
		"/silent": {provider.Limits{Answer: short, Tries: 2}, "google_drive.answer"},
		"/drip":   {provider.Limits{Body: short}, "google_drive.body"},
	} {
		client, err := provider.NewClient(provider.Options{Dialect: provider.Google, Clock: newClock(), Limits: c.limits})
		require.NoError(t, err)
		t.Cleanup(client.CloseIdleConnections)
		_, _, err = get(t, client, s.URL+path)
		var late *deadline.Error
		require.ErrorAs(t, err, &late, path)
		require.Equal(t, c.name, late.Name, path)
	}
}

func TestARunThatEndsEndsItsWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{status: 429, header: map[string]string{"Retry-After": "300"}})
	c, _ := client(t, s, func(o *provider.Options) { o.Clock = provider.System{} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(s.requests()) == 1 }, time.Minute, time.Millisecond)
	cancel()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(time.Minute):
		t.Fatal("the wait goes on")
	}
}

func TestErrorsSayNothingThatIsSecret(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	cleaner := secret.NewCleaner("hunter-two")
	c, err := provider.NewClient(provider.Options{Dialect: provider.Google, Clock: newClock(), Cleaner: cleaner})
	require.NoError(t, err)
	_, _, err = get(t, c, dead+"/f?tempauth=abc")
	require.Error(t, err)
	require.NotContains(t, cleaner.Error(err).Error(), "tempauth")

	s := serve(t, answer{status: 429, header: map[string]string{"Retry-After": "9999"}, body: `{"error":{"message":"hunter-two is not welcome\nat all"}}`})
	c, err = provider.NewClient(provider.Options{Dialect: provider.Google, Clock: newClock(), Cleaner: cleaner})
	require.NoError(t, err)
	_, _, err = get(t, c, s.URL)
	var e *provider.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, "REDACTED is not welcome", e.Message)
}

func TestAHostElsewhereTakesNothingOfWhatTheRunMayWait(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, answer{status: 503, header: map[string]string{"Retry-After": "20"}})
	api := serve(t, answer{status: 429, header: map[string]string{"Retry-After": "1"}}, ok)
	var waited []time.Duration
	c, _ := client(t, api, func(o *provider.Options) {
		o.Tokens = provider.NewTokens(&grant{life: 3600}, nil)
		o.Waits = func(_ context.Context, wait time.Duration, _ string) (func(), error) {
			waited = append(waited, wait)
			return func() {}, nil
		}
	})
	for range 2 {
		status, _, err := get(t, c, elsewhere.URL)
		require.NoError(t, err)
		require.Equal(t, 503, status)
	}
	status, _, err := get(t, c, api.URL)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, []time.Duration{time.Second}, waited)
}
