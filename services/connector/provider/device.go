package provider

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"
	// deviceInterval is the pause between two questions where the sign-in names none, and what "slow_down" adds to it
	// (RFC 8628, sections 3.2 and 3.5).
	deviceInterval = 5 * time.Second
	// deviceLife is how long a code is valid where the sign-in does not say ("Microsoft identity platform and the OAuth 2.0 device
	// authorization grant flow").
	deviceLife = 15 * time.Minute
)

// Device gets a user's consent by a code, which the user enters in a browser on any machine (RFC 8628). The oauth2 package asks for
// the code without its context, leaves the answer open, and polls by the wall clock; so this package asks by itself.
type Device struct {
	Issuer
	// DeviceURL gives the codes.
	DeviceURL string
	ClientID  string
	Scopes    []string
	// Show tells the user which page to open, and the code.
	Show func(page, code string) error
}

// Refresh returns the refresh token of the consent. It waits until ctx ends, or the code expires.
func (d *Device) Refresh(ctx context.Context) (string, error) {
	client, err := d.client()
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	d.Clock = cmp.Or[Clock](d.Clock, System{})
	var code struct {
		Device   string `json:"device_code"`
		User     string `json:"user_code"`
		Page     string `json:"verification_uri"`
		Expires  int64  `json:"expires_in"`
		Interval int64  `json:"interval"`
	}
	asked := url.Values{"client_id": {d.ClientID}, "scope": {strings.Join(d.Scopes, " ")}}
	if _, err := d.post(ctx, client, d.DeviceURL, asked, &code); err != nil {
		return "", d.deviceError(ctx, err)
	}
	page, err := url.Parse(code.Page)
	if err != nil || page.Host == "" || page.Scheme != "https" && page.Scheme != "http" || code.Device == "" || code.User == "" {
		return "", fmt.Errorf("get a code: %s answered something else", d.Dialect.signIn())
	}
	d.Cleaner.Learn(code.Device)
	life, interval := seconds(code.Expires, deviceLife), seconds(code.Interval, deviceInterval)
	ends := d.Clock.Now().Add(life)
	if err := d.Show(clipLine(page.String()), clipLine(code.User)); err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {deviceGrant}, "client_id": {d.ClientID}, "device_code": {code.Device}}
	for {
		if err := d.Clock.Sleep(ctx, interval); err != nil {
			return "", err
		}
		if !d.Clock.Now().Before(ends) {
			return "", d.expired(life)
		}
		var token struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		}
		_, err := d.post(ctx, client, d.TokenURL, form, &token)
		refusal, is := errors.AsType[*oauth2.RetrieveError](err)
		if !is {
			d.Cleaner.Learn(token.Access)
			if err != nil {
				return "", d.refusal(ctx, err)
			}
			return d.requireRefreshToken(token.Refresh)
		}
		switch reason, description := refusalReason(refusal); reason {
		case "authorization_pending":
		case "slow_down":
			interval += deviceInterval
		case "access_denied", "authorization_declined":
			return "", d.refusedConsent(reason, description)
		case "expired_token":
			return "", d.expired(life)
		default:
			return "", d.deviceError(ctx, err)
		}
	}
}

func (d *Device) expired(life time.Duration) error {
	return &Error{Provider: d.Dialect.signIn(), Reason: "expired_token", Message: fmt.Sprintf(
		"nobody signed in while the code was good, for %s; connect again for another code", life)}
}

// deviceError is the error of a refused code, with a hint for applications that have no secret.
func (d *Device) deviceError(ctx context.Context, err error) error {
	refusal, is := errors.AsType[*oauth2.RetrieveError](err)
	if !is {
		return d.refusal(ctx, err)
	}
	told := d.consent(refusal)
	if reason, _ := refusalReason(refusal); reason == "invalid_client" || reason == "unauthorized_client" {
		return fmt.Errorf("%w (codes are for applications whose registration allows public client flows)", told)
	}
	return told
}

// post asks for JSON. A refusal is an *oauth2.RetrieveError. date is the time of the answer.
func (i Issuer) post(ctx context.Context, client *http.Client, address string, form url.Values, into any) (date time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return date, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	if err != nil {
		return date, err
	}
	defer func() { _ = resp.Body.Close() }()
	date, _ = http.ParseTime(resp.Header.Get("Date"))
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	switch {
	case err != nil:
		return date, err
	case resp.StatusCode != http.StatusOK:
		return date, &oauth2.RetrieveError{Response: resp, Body: content}
	case json.Unmarshal(content, into) != nil:
		return date, fmt.Errorf("%s answered something else", i.Dialect.signIn()) // the error's text may hold a token
	}
	return date, nil
}

// seconds is a duration of n seconds, or the default where n makes no sense.
func seconds(n int64, otherwise time.Duration) time.Duration {
	if d := time.Duration(n) * time.Second; n > 0 && n <= int64(24*time.Hour/time.Second) {
		return d
	}
	return otherwise
}
