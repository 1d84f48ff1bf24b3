package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/oauth2"

	"github.com/echomind/sync/sdk/worker"
)

// Reasons of a token endpoint (RFC 6749, section 5.2; "OAuth 2.0 error codes" of the Microsoft identity platform).
var (
	// consentReasons mean that the user's consent is no longer valid: expired, revoked, or in need of an interaction.
	consentReasons = []string{"invalid_grant", "interaction_required", "consent_required", "login_required"}
	// applicationReasons mean that the application differs from the configuration.
	applicationReasons = []string{"invalid_client", "unauthorized_client", "invalid_scope", "access_denied", "deleted_client",
		"org_internal", "admin_policy_enforced", "invalid_request", "invalid_target", "unsupported_grant_type",
		"disabled_client"}
)

// isFinal says whether a provider has refused a grant for good.
func isFinal(err error) bool {
	e, is := errors.AsType[*Error](err)
	return is && (slices.Contains(consentReasons, e.Reason) || slices.Contains(applicationReasons, e.Reason))
}

// refusalReason returns the reason of a token endpoint, and its description for people.
func refusalReason(answer *oauth2.RetrieveError) (reason, description string) {
	if answer.ErrorCode != "" {
		return answer.ErrorCode, answer.ErrorDescription
	}
	var body struct {
		Error       any    `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(answer.Body, &body) == nil {
		reason, _ = body.Error.(string)
		description = body.Description
	}
	return reason, description
}

// consent turns a token endpoint's refusal into what the user is to do.
func (i Issuer) consent(answer *oauth2.RetrieveError) error {
	reason, description := refusalReason(answer)
	status := 0
	if answer.Response != nil {
		status = answer.Response.StatusCode
	}
	e := &Error{
		Provider: i.Dialect.signIn(), Status: status, Reason: clipLine(i.Cleaner.Text(reason)),
		Message: clipLine(i.Cleaner.Text(description)),
	}
	says := ""
	if e.Message != "" {
		says = ": " + e.Message
	}
	switch {
	case slices.Contains(consentReasons, e.Reason):
		e.Message = fmt.Sprintf("the consent has expired or was revoked; %s%s", i.Dialect.reconnect(), says)
		return worker.Permanent(e)
	case slices.Contains(applicationReasons, e.Reason):
		advice := "check client_id, client_secret and what it may do"
		if i.Dialect.Connector != 0 {
			advice += ", and change the credentials" + i.Dialect.update()
		}
		e.Message = fmt.Sprintf("the application that asks is refused; %s%s", advice, says)
		return worker.Permanent(e)
	}
	e.Message = "no access token" + says
	return e
}
