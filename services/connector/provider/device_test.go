package provider_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector/provider"
	"github.com/echomind/sync/testonly/signintest"
)

// microsofts is how Microsoft's consent is had by a code. show is the user.
func microsofts(s *signintest.Server, show func(page, code string) error) (*provider.Device, *clock) {
	c := newClock()
	return &provider.Device{
		Issuer: provider.Issuer{
			Dialect: provider.Microsoft, TokenURL: s.URL + "/contoso/oauth2/v2.0/token", Cleaner: secret.NewCleaner(), Clock: c,
		},
		DeviceURL: s.URL + "/contoso/oauth2/v2.0/devicecode", ClientID: signintest.ClientID,
		Scopes: []string{"offline_access", "https://graph.microsoft.com/Files.Read.All"}, Show: show,
	}, c
}

func TestACodeThatIsEnteredLeavesARefreshTokenAndTheSignInSaysHowOftenItIsAsked(t *testing.T) {
	t.Parallel()
	s := signIn(t, func(s *signintest.Server) {
		s.Interval = 3
		s.Polls = []string{"authorization_pending", "slow_down", "authorization_pending", "slow_down"}
	})
	device, c := microsofts(s, func(page, code string) error {
		require.Equal(t, s.URL+"/devicelogin", page)
		require.Equal(t, signintest.UserCode, code)
		s.Enter()
		return nil
	})
	token, err := device.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, signintest.RefreshToken, token)
	require.Equal(t, []time.Duration{3 * time.Second, 3 * time.Second, 8 * time.Second, 8 * time.Second, 13 * time.Second}, c.sleeps())
}

func TestACodeThatLeavesNothingSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*signintest.Server)
		says   string
	}{
		"refused": {func(s *signintest.Server) { s.Denies = true }, "Microsoft sign-in: authorization_declined: the consent was refused"},
		"expired": {func(s *signintest.Server) { s.Polls = []string{"authorization_pending", "expired_token"} },
			"expired_token: nobody signed in while the code was good, for 15m0s; connect again for another code"},
		"no refresh token": {func(s *signintest.Server) { s.Forgets = true }, "the consent left no refresh token; it gives one with the permission offline_access"},
		"broken":           {func(s *signintest.Server) { s.Broken = 500 }, "Microsoft sign-in answered 500: no access token"},
		"no public client": {func(s *signintest.Server) { s.Private = true }, "'client_secret'. (codes are for applications whose registration allows public client flows)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := signIn(t, c.change)
			device, _ := microsofts(s, func(string, string) error { s.Enter(); return nil })
			_, err := device.Refresh(t.Context())
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "Graph answered")
			requireNoSecret(t, err.Error())
		})
	}
	s := signIn(t, nil)
	device, _ := microsofts(s, func(string, string) error { return nil })
	device.ClientID = "an application that is not there"
	_, err := device.Refresh(t.Context())
	require.ErrorContains(t, err, "AADSTS700016")
	require.Len(t, s.Requests(), 1)
}

func TestACodeThatNobodyEntersIsNotAskedForLongerThanItIsGood(t *testing.T) {
	t.Parallel()
	s := signIn(t, func(s *signintest.Server) { s.Life, s.Interval = 60, 7 })
	device, c := microsofts(s, func(string, string) error { return nil })
	_, err := device.Refresh(t.Context())
	require.ErrorContains(t, err, "nobody signed in while the code was good, for 1m0s")
	require.Len(t, c.sleeps(), 9, "60 seconds, every 7")

	ctx, stop := context.WithCancel(t.Context())
	s = signIn(t, nil)
	device, _ = microsofts(s, func(string, string) error { stop(); return nil })
	_, err = device.Refresh(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, s.Requests(), 1)
}

func TestACodesPageThatIsNoAddressIsNotShown(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `{"device_code":"x","user_code":"y","verification_uri":"javascript:alert(1)"}`, `[`} {
		s := serve(t, answer{status: 200, body: body})
		device := &provider.Device{
			Issuer:    provider.Issuer{Dialect: provider.Microsoft, TokenURL: s.URL, Clock: newClock()},
			DeviceURL: s.URL, ClientID: "app", Show: func(string, string) error { t.Error("shown"); return nil },
		}
		_, err := device.Refresh(t.Context())
		require.ErrorContains(t, err, "Microsoft sign-in answered something else")
	}
}
