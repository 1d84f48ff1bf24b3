package connector

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/sdk/worker"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/services/connector/provider"
)

// accessRequest says which provider a run asks, and which application the service uses where the configuration names none.
type accessRequest struct {
	connectorType          string
	dialect                provider.Dialect
	endpoint               string
	rate                   provider.Rate
	clientID, clientSecret string
	identity               identity
	// target is what the configuration names at Microsoft.
	target target
}

// account is what a run uses to call its provider.
type account struct {
	// api authorises; plain is for pre-authenticated URLs.
	api, plain *http.Client
	// cleaner knows the secrets.
	cleaner *secret.Cleaner
	close   func()
}

// identity are the fields of a configuration's credentials that are not secret.
type identity struct {
	ClientID, TenantID, Subject string
	// own says that the configuration names no application, so that the service uses its own.
	own bool
}

// openAccount opens a run's secrets, and makes the clients that use them. No other place decrypts them.
func (s *service) openAccount(ctx context.Context, run *worker.Run, a accessRequest) (*account, error) {
	request := run.Request()
	var raw json.RawMessage
	if err := run.Config(&raw); err != nil {
		return nil, err
	}
	secrets, err := s.ring.OpenConfig(request.ConnectorId, SecretFields(a.connectorType), raw)
	if err != nil {
		return nil, refusedSecret(err)
	}
	open := a.identity
	clientSecret := secrets["client_secret"]
	open.own = open.ClientID == ""
	if open.own {
		open.ClientID, clientSecret = a.clientID, a.clientSecret
	}
	rotated, err := s.rotation(ctx, run, secrets["refresh_token"])
	if err != nil {
		return nil, err
	}
	a.dialect.Connector = request.ConnectorId
	cleaner := secret.NewCleaner(append(privateParts(secrets["service_account"]), clientSecret, secrets["refresh_token"],
		rotated.token, secrets["service_account"])...)
	issuer := provider.Issuer{
		Dialect: a.dialect, Base: s.base, Limits: s.config.limits(), Cleaner: cleaner, Metrics: s.metrics, Waits: run.Waits,
	}
	grant, proof, err := s.grant(a, issuer, open, clientSecret, secrets, rotated)
	if err != nil {
		return nil, worker.Permanent(fmt.Errorf("config: %w", err))
	}
	quota, release := s.quotas.Account(a.dialect, accountName(a, open, proof), a.rate, run.Waits)
	opts := provider.Options{
		Dialect: a.dialect, Endpoint: a.endpoint, Tokens: provider.NewTokens(grant, nil), Quota: quota, Base: s.base,
		Limits: s.config.limits(), Cleaner: cleaner, Metrics: s.metrics, Waits: run.Waits,
	}
	api, err := provider.NewClient(opts)
	opts.Tokens = nil
	plain, bad := provider.NewClient(opts)
	if err = cmp.Or(err, bad); err != nil {
		release()
		return nil, err
	}
	return &account{api: api, plain: plain, cleaner: cleaner, close: release}, nil
}

// refusedSecret is the error of a run whose secrets cannot be opened. A missing key must be given to the service by its operator,
// and the connector is tried again; any other problem is the user's to mend.
func refusedSecret(err error) error {
	if errors.Is(err, secret.ErrNoKey) || errors.Is(err, secret.ErrUnknownKey) {
		return fmt.Errorf("config: %w", err)
	}
	return worker.Permanent(fmt.Errorf("config: %w", err))
}

// grant returns the way to get access tokens. proof is known to the account's owner alone: the quota is bound to it, so that a
// configuration that merely names an account cannot use up, or block, its quota.
func (s *service) grant(
	a accessRequest, issuer provider.Issuer, open identity, clientSecret string, secrets map[string]string, rotated *rotation,
) (grant provider.Grant, proof string, err error) {
	google := a.connectorType == typeGoogleDrive
	if open.Subject != "" && secrets["service_account"] == "" {
		return nil, "", errors.New("subject: it needs service_account, the account that acts for that user")
	}
	scopes := []string{consent.GoogleScope}
	if issuer.TokenURL = s.config.GoogleTokenURL; !google {
		if issuer.TokenURL, err = s.config.MicrosoftLogin(open.TenantID, "token"); err != nil {
			return nil, "", err
		}
		u, err := url.Parse(s.config.MicrosoftGraphURL)
		if err != nil {
			return nil, "", err
		}
		scopes = []string{u.Scheme + "://" + u.Host + "/.default"}
	}
	switch {
	case secrets["service_account"] != "" && google:
		grant := &provider.ServiceAccount{Issuer: issuer, Scopes: scopes, Subject: open.Subject}
		err := grant.ReadKey(secrets["service_account"])
		return grant, grant.KeyHash(), err
	case open.ClientID == "":
		return nil, "", errors.New("client_id: no application is named, here or in the service's environment")
	case secrets["refresh_token"] != "":
		return &provider.Refresh{
			Issuer: issuer, ClientID: open.ClientID, ClientSecret: clientSecret, Token: rotated.token, Rotator: rotated,
		}, secrets["refresh_token"], nil
	case !google && clientSecret != "" && open.TenantID != "":
		if open.own {
			if err := s.allowed.check(open.TenantID, a.target); err != nil {
				return nil, "", err
			}
		}
		return &provider.ClientCredentials{
			Issuer: issuer, ClientID: open.ClientID, ClientSecret: clientSecret, Scopes: scopes,
		}, clientSecret, nil
	case google:
		return nil, "", errNoGoogleCredentials
	}
	return nil, "", errNoMicrosoftCredentials
}

// accountName is the same for all connectors of the same account, and reveals nothing about it.
func accountName(a accessRequest, open identity, proof string) string {
	h := sha256.New()
	for _, part := range []string{open.ClientID, open.TenantID, open.Subject, proof} {
		sum := sha256.Sum256([]byte(part))
		h.Write(sum[:])
	}
	return a.connectorType + ":" + hex.EncodeToString(h.Sum(nil)[:16])
}

// privateParts are the secrets within a key file.
func privateParts(file string) []string {
	var read struct {
		Key string `json:"private_key"`
	}
	_ = json.Unmarshal([]byte(file), &read)
	return []string{read.Key}
}
