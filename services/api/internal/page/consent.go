package page

import (
	"fmt"
	"net/http"
)

// PathConsent is where a provider sends the browser back to, once somebody has consented.
const PathConsent = "/connect/back"

const (
	// consentCookie has what a consent needs when the browser comes back from a provider.
	consentCookie  = "echomind_consent"
	consentSeconds = 10 * 60
)

// Consent is what somebody may consent to, at their provider's.
type Consent struct {
	// Address is the provider's.
	Address, Provider string
	// Name and Scope are the connector's.
	Name, Scope string
	Permissions []string
}

// readers are who finds what is stored of a source of a scope.
var readers = map[string]string{
	"user": "the source's owner", "group": "everybody in the source's group", "org": "everybody",
}

type consentView struct {
	common
	Consent
	ID            int32
	Readers, Back string
}

// connect says what somebody is to consent to, and where. The link is followed by themselves: a form that led to another site would be refused by the
// browser, as the policy of pages has it.
func (p *pages) connect(q *request) error {
	id, err := numberOf(q.PathValue("id"))
	if err != nil {
		return err
	}
	asked, kept, err := q.service.AskConsent(q.Request, id)
	if err != nil {
		return err
	}
	q.keep(consentCookie, kept, consentSeconds)
	title := "Connect with " + asked.Provider
	q.render(http.StatusOK, "consent.html", consentView{q.common(title, "sources"), asked, id, readers[asked.Scope], q.zone.to(fmt.Sprintf("/sources/%d", id))})
	return nil
}

// connected takes what a consent has left.
func (p *pages) connected(q *request) error {
	if looksAhead(q.Request) {
		http.Redirect(q.ResponseWriter, q.Request, "/", http.StatusSeeOther)
		return nil
	}
	id, used, err := q.service.TakeConsent(q.Request, keptIn(q.Request, consentCookie))
	if used {
		q.keep(consentCookie, "", 0) // one consent comes back once
	}
	q.URL.RawQuery = "" // a page repeats its address in its links, and this one has a code
	if err != nil {
		return err
	}
	q.back(fmt.Sprintf("/sources/%d", id), "connected")
	return nil
}
