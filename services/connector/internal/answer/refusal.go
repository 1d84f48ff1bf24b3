package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/echomind/sync/internal/line"
)

// Refusal is an answer other than what was asked for.
type Refusal struct {
	// Target is what was asked: an address, or the service.
	Target string
	// Status is the HTTP status.
	Status int
	// Codes are the error codes of the answer, the most general first ("Microsoft Graph error responses and resource types": decide
	// by the most detailed known code, never by the message; "Resolve errors" of Google Drive calls them reasons). Without any, the status in words.
	Codes []string
	// Message is the service's text for people, in one line; it may be empty. It may differ from one answer to the next.
	Message string
	// Location is where to start again after a 410.
	Location string
	// Parameter is the parameter that is at fault, where the answer names one.
	Parameter string
}

func (r *Refusal) Error() string {
	if r.Message == "" {
		return r.Brief()
	}
	return r.Brief() + ": " + r.Message
}

// Brief leaves out the message.
func (r *Refusal) Brief() string {
	return strings.TrimSpace(fmt.Sprintf("%s answered %d %s", r.Target, r.Status, strings.Join(r.Codes, "/")))
}

// Has tells whether the answer carries one of some error codes.
func (r *Refusal) Has(codes ...string) bool {
	return slices.ContainsFunc(r.Codes, func(have string) bool {
		return slices.ContainsFunc(codes, func(code string) bool { return strings.EqualFold(have, code) })
	})
}

// Code is the first error code; empty where there is none.
func (r *Refusal) Code() string {
	if len(r.Codes) == 0 {
		return ""
	}
	return r.Codes[0]
}

// RefusalOf is the Refusal in an error; empty where there is none.
func RefusalOf(err error) Refusal {
	if r, is := errors.AsType[*Refusal](err); is {
		return *r
	}
	return Refusal{}
}

const (
	// maxRefusal bounds how much is read of an error's body.
	maxRefusal = 64 << 10
	// maxCode is how long an error code may be; the longest that is documented has half of it.
	maxCode = 64
	// maxMessage bounds what is kept of a message.
	maxMessage = 400
)

// ReadRefusal reads the body of an error.
func ReadRefusal(resp *http.Response, target string) *Refusal {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	r := ParseRefusal(body)
	r.Target, r.Status, r.Location = target, resp.StatusCode, resp.Header.Get("Location")
	// A longer text is no code. A cut text may be a part of a secret, which the cleaner would not recognise.
	if r.Codes = slices.DeleteFunc(r.Codes, func(code string) bool { return len(code) > maxCode }); len(r.Codes) == 0 && http.StatusText(resp.StatusCode) != "" {
		r.Codes = []string{http.StatusText(resp.StatusCode)}
	}
	r.Message = clipMessage(r.Message)
	return &r
}

// clipMessage returns the first whole words of a message: a cut word may be a part of a secret, which the cleaner would not
// recognise.
func clipMessage(message string) string {
	message = line.One(message)
	if len(message) <= maxMessage {
		return message
	}
	last := strings.LastIndexByte(message[:maxMessage+1], ' ')
	return strings.TrimSpace(message[:max(last, 0)] + " …")
}

// ParseRefusal reads the body of an error. It neither cuts nor cleans what that says. Both providers write an object "error", which
// holds a code, nested errors ("innerError"), or lists ("errors", "details").
func ParseRefusal(body []byte) (r Refusal) {
	type inner struct {
		Code       any    `json:"code"`
		Message    string `json:"message"`
		InnerError *inner `json:"innerError"`
		Innererror *inner `json:"innererror"`
		Errors     []struct {
			Reason   string `json:"reason"`
			Location string `json:"location"`
		} `json:"errors"`
		Details []struct {
			Reason string `json:"reason"`
		} `json:"details"`
	}
	var answer struct {
		Error *inner `json:"error"`
	}
	var other *json.UnmarshalTypeError // a field of another shape takes nothing from the rest
	if err := json.Unmarshal(body, &answer); err != nil && !errors.As(err, &other) || answer.Error == nil {
		return r
	}
	at := answer.Error
	if r.Message = at.Message; len(at.Errors) > 0 {
		r.Parameter = at.Errors[0].Location
	}
	for depth := 0; at != nil && depth < 8; depth++ {
		for _, e := range at.Errors {
			r.Codes = append(r.Codes, e.Reason)
		}
		for _, e := range at.Details {
			r.Codes = append(r.Codes, e.Reason)
		}
		if code, is := at.Code.(string); is {
			r.Codes = append(r.Codes, code)
		}
		if at.InnerError == nil {
			at.InnerError = at.Innererror
		}
		at = at.InnerError
	}
	for i, code := range r.Codes {
		r.Codes[i] = line.One(code)
	}
	r.Codes = slices.DeleteFunc(r.Codes, func(code string) bool { return code == "" })
	return r
}

// EndsSync tells whether an error says of itself that it is about the account, so that other requests would fail, too.
func EndsSync(err error) bool {
	about, is := errors.AsType[interface {
		error
		EndsSync() bool
	}](err)
	return is && about.EndsSync()
}
