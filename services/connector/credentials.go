package connector

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/connector/consent"
	"github.com/echomind/sync/services/connector/provider"
)

var (
	errNoGoogleCredentials    = errors.New("no credentials: give refresh_token, or service_account; `echomind connect google` connects a user")
	errNoMicrosoftCredentials = errors.New("no credentials: give refresh_token, or tenant_id with client_secret; `echomind connect microsoft` connects a user")
)

// credentialFields are the fields of a configuration that are set and not empty.
type credentialFields map[string]json.RawMessage

func (g credentialFields) has(name string) bool {
	value := string(g[name])
	return value != "" && value != `""` && value != "null"
}

// text is the value of a text field; else empty.
func (g credentialFields) text(name string) (text string) {
	_ = json.Unmarshal(g[name], &text)
	return text
}

// checkCredentials returns every combination of credentials that cannot work: one of them would not be used, or another is missing.
func checkCredentials(connectorType string, config []byte) error {
	var fields credentialFields
	if json.Unmarshal(config, &fields) != nil {
		return nil // which has been said
	}
	if connectorType == typeGoogleDrive {
		return errors.Join(fields.checkApplication(), fields.checkGoogle())
	}
	return errors.Join(fields.checkApplication(), fields.checkMicrosoft())
}

func (g credentialFields) checkApplication() error {
	if g.has("client_secret") && !g.has("client_id") {
		return errors.New("client_secret: it needs client_id, the application whose secret it is")
	}
	return nil
}

func (g credentialFields) checkGoogle() error {
	robot := g.has("service_account")
	var problems []error
	refuse := func(is bool, problem string) {
		if is {
			problems = append(problems, errors.New(problem))
		}
	}
	refuse(g.has("tenant_id"), "tenant_id: it is a Microsoft directory; leave it out")
	refuse(robot && g.has("refresh_token"), "service_account, refresh_token: give one of them; the first asks as an account of its own, the second as a user")
	refuse(robot && g.has("client_id"), "client_id: it goes with refresh_token; a service account asks for itself, so leave it out")
	refuse(!robot && g.has("subject"), "subject: it needs service_account, the account that acts for that user")
	if !robot && !g.has("refresh_token") {
		problems = append(problems, errNoGoogleCredentials)
	}
	if robot {
		problems = append(problems, checkKeyFile(g["service_account"]))
	}
	return errors.Join(problems...)
}

// checkKeyFile returns the problems of a service account's key, where it is not sealed yet.
func checkKeyFile(value json.RawMessage) error {
	file := string(value)
	var text string
	if json.Unmarshal(value, &text) == nil {
		file = text
	}
	if secret.IsEnvelope(file) {
		return nil
	}
	return new(provider.ServiceAccount).ReadKey(file)
}

func (g credentialFields) checkMicrosoft() error {
	var problems []error
	for _, name := range []string{"service_account", "subject"} {
		if g.has(name) {
			problems = append(problems, fmt.Errorf("%s: it is Google's; leave it out", name))
		}
	}
	directory := g.text("tenant_id")
	if directory != "" {
		problems = append(problems, consent.CheckTenant(directory))
	}
	switch {
	case g.has("refresh_token"):
	case !g.has("tenant_id"):
		problems = append(problems, errNoMicrosoftCredentials)
	default:
		problems = append(problems, g.checkApplicationAlone(directory))
	}
	return errors.Join(problems...)
}

// checkApplicationAlone checks an application that asks in its own name: it belongs to one directory, has a secret, and has no
// drive.
func (g credentialFields) checkApplicationAlone(directory string) error {
	var problems []error
	if slices.Contains(notTenants, strings.ToLower(directory)) {
		problems = append(problems, fmt.Errorf("tenant_id: %q is no one directory, and without refresh_token it must be one: "+
			"give its id or domain, or connect a user with `echomind connect microsoft`", directory))
	}
	if g.has("client_id") && !g.has("client_secret") {
		problems = append(problems, errors.New("client_secret: it is missing, and without refresh_token client_id needs it; "+
			"a user is connected with `echomind connect microsoft`"))
	}
	if !g.has("team_id") && !slices.ContainsFunc([]string{"drive_id", "site", "group_id", "user"}, g.has) {
		problems = append(problems, errors.New("drive_id, site, group_id, user: one of them is missing, and without refresh_token there is no user "+
			"whose drive it could be"))
	}
	return errors.Join(problems...)
}
