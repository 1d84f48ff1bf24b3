// Package problem is what the API answers where it does not do what it was asked: RFC 9457, with a type that stays, the field that is
// wrong, and what to do. It is the one place that turns errors into answers.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/postgres"
)

const prefix = "urn:echomind:problem:"

// Problem is the body of such an answer.
type Problem struct {
	Type   string `json:"type" doc:"What is wrong, for programs. It does not change."`
	Title  string `json:"title" doc:"The same for people."`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty" doc:"What is wrong with this request."`
	// Fix is what to do.
	Fix       string  `json:"fix,omitempty" doc:"What to do."`
	RequestID string  `json:"request_id,omitempty" doc:"Names the request in the audit and in logs."`
	Errors    []Field `json:"errors,omitempty" doc:"What is wrong with each field."`

	retryAfter int
	// challenge is what WWW-Authenticate says besides, as RFC 6750 has it.
	challenge string
	cause     error
}

// Field is what is wrong with one field. It repeats numbers and names of ours, and no value that may be a secret.
type Field struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Error is part of error.
func (p *Problem) Error() string { return p.Type + ": " + p.Detail }

// Unwrap is what has caused it, for the log.
func (p *Problem) Unwrap() error { return p.cause }

// GetStatus is part of huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is part of huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders is part of huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	headers := http.Header{}
	if p.retryAfter > 0 {
		headers.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.Status == http.StatusUnauthorized || p.challenge != "" {
		headers.Set("WWW-Authenticate", `Bearer realm="echomind"`+p.challenge)
	}
	return headers
}

// Answered is the problem of an answer that an operation has given.
func Answered(header http.Header, body []byte) (*Problem, error) {
	p := &Problem{}
	p.retryAfter, _ = strconv.Atoi(header.Get("Retry-After")) // 0 where it says none
	return p, json.Unmarshal(body, p)
}

func kind(name, title string, status int, detail, fix string) *Problem {
	return &Problem{Type: prefix + name, Title: title, Status: status, Detail: detail, Fix: fix}
}

// Unauthenticated is of a request that nobody has signed.
func Unauthenticated(detail string) *Problem {
	return kind("unauthenticated", "Not signed in", 401, detail, "Send the header Authorization with Bearer and a token: one that `echomind tokens create` makes, or your issuer's.")
}

// InvalidToken is of a token that does not count. The detail has no quotes.
func InvalidToken(detail string) *Problem {
	p := Unauthenticated(detail)
	p.challenge = `, error="invalid_token", error_description="` + detail + `"`
	return p
}

// InsufficientScope is of a token that is not for such operations.
func InsufficientScope(scope string) *Problem {
	p := Forbidden("The token does not have the scope "+scope+".", "Use a token that has it.")
	p.challenge = `, error="insufficient_scope", scope="` + scope + `"`
	return p
}

// Forbidden is of what somebody sees and may not do.
func Forbidden(detail, fix string) *Problem {
	return kind("forbidden", "Not allowed", 403, detail, fix)
}

// NotFound is of what is not there, or not for somebody to see: the answer does not tell which.
func NotFound(what string) *Problem {
	return kind("not-found", "Not found", 404, "There is no "+what+" that you may see.", "")
}

// Invalid is of a value that is wrong.
func Invalid(field, detail string) *Problem {
	p := kind("invalid", "Not valid", 422, "A value is not valid.", "Correct the fields that errors names.")
	p.Errors = []Field{{field, detail}}
	return p
}

// Conflict is of what cannot be done as things stand.
func Conflict(detail, fix string) *Problem {
	return kind("conflict", "Not possible now", 409, detail, fix)
}

// PreconditionRequired is of a change that does not name its version.
func PreconditionRequired() *Problem {
	return kind("precondition-required", "If-Match is missing", 428, "A change says which version it changes.", "Send If-Match with the ETag of your last GET.")
}

// PreconditionFailed is of a change of another version.
func PreconditionFailed() *Problem {
	return kind("precondition-failed", "Changed meanwhile", 412, "Somebody has changed it since you have read it.", "GET it again, and send its ETag as If-Match.")
}

// Exists is of something new whose name is taken.
func Exists() *Problem {
	return kind("precondition-failed", "Changed meanwhile", 412, "There is one of this name already.", "GET it, and send its ETag as If-Match to replace it, or take another name.")
}

// Gone is of a change of what is not there.
func Gone() *Problem {
	return kind("precondition-failed", "Changed meanwhile", 412, "There is none of this name any more.", "Leave If-Match away to add it.")
}

// TooMany is of a token that asks too often.
func TooMany(retryAfter int) *Problem {
	p := kind("too-many-requests", "Too many requests", 429, "This token, or the address that this comes from with tokens that are not known, or for badges, asks more often than it may.", "Wait as long as Retry-After says.")
	p.retryAfter = retryAfter
	return p
}

// Unavailable is of a database that does not answer.
func Unavailable(cause error) *Problem {
	p := kind("unavailable", "Not available now", 503, "The database does not answer. Nothing was changed, unless it was changed just before.", "Try again after Retry-After.")
	p.retryAfter, p.cause = 2, cause
	return p
}

// IssuerAway is of an issuer of tokens that does not answer.
func IssuerAway(retryAfter int, cause error) *Problem {
	p := kind("unavailable", "Not available now", 503, "The issuer does not answer, or not as it must, and without it nobody knows who this is.", "Try again after Retry-After.")
	p.retryAfter, p.cause = retryAfter, cause
	return p
}

// ProviderAway is of a provider that gives no answer to a consent. What was asked once is not asked again.
func ProviderAway(cause error) *Problem {
	p := kind("unavailable", "Not available now", 503, "The provider does not answer, and nothing is connected.", "Connect the source again.")
	p.retryAfter, p.cause = 5, cause
	return p
}

// IndexAway is of a search whose index does not answer.
func IndexAway(cause error) *Problem {
	p := kind("unavailable", "Not available now", 503, "The search index does not answer, or is not kept.", "Try again after Retry-After. If it lasts, tell the operator the request_id: the log says more.")
	p.retryAfter, p.cause = 5, cause
	return p
}

// ManySearches is of a search that waited in vain for others.
func ManySearches() *Problem {
	p := kind("unavailable", "Not available now", 503, "Too many searches are under way.", "Try again after Retry-After, one search at a time.")
	p.retryAfter = 2
	return p
}

// ManyPreviews is of an operation, or a preview of one, that waited in vain for others.
func ManyPreviews() *Problem {
	p := kind("unavailable", "Not available now", 503, "Others look for what matches a filter just now, and nothing was begun.", "Try again after Retry-After.")
	p.retryAfter = 2
	return p
}

// ManyChains is of a change of a chain that waited in vain for others.
func ManyChains() *Problem {
	p := Conflict("Others change what runs after what just now, and nothing was changed.", "Try again after Retry-After.")
	p.retryAfter = 2
	return p
}

// ManyQueues is of a page of what waits that waited in vain for others.
func ManyQueues() *Problem {
	p := kind("unavailable", "Not available now", 503, "Too many ask for what waits.", "Try again after Retry-After.")
	p.retryAfter = 2
	return p
}

// ManyBadges is of a badge that waited in vain for others.
func ManyBadges() *Problem {
	p := kind("unavailable", "Not available now", 503, "Too many badges are asked for.", "Try again after Retry-After.")
	p.retryAfter = 2
	return p
}

// ManyWatchers is of a stream of events where as many are open as may be.
func ManyWatchers(detail, fix string) *Problem {
	p := kind("unavailable", "Not available now", 503, detail, fix)
	p.retryAfter = 10
	return p
}

// EventsAway is of events that cannot be read.
func EventsAway(cause error) *Problem {
	p := kind("unavailable", "Not available now", 503, "The broker that has the events does not answer.", "Try again after Retry-After.")
	p.retryAfter, p.cause = 5, cause
	return p
}

// LettersAnew is of a page token of dead letters whose stream was made anew since.
func LettersAnew() *Problem {
	return kind("precondition-failed", "Changed meanwhile", 412, "The stream of dead letters was made anew since the page_token was given: its numbers are those of other letters. Nothing was changed.",
		"Look at the groups again, and send the request without page_token.")
}

// LettersBusy is of a request for many dead letters, or one that drops a letter, beside another one.
func LettersBusy() *Problem {
	p := Conflict("Dead letters are being replayed or dropped by another request. Nothing was changed.", "Send the same request again after Retry-After.")
	p.retryAfter = 3
	return p
}

// LettersAway is of dead letters that cannot be read, or of one that cannot be removed. The detail says what was done.
func LettersAway(detail string, cause error) *Problem {
	p := kind("unavailable", "Not available now", 503, detail, "Try again after Retry-After.")
	p.retryAfter, p.cause = 5, cause
	return p
}

// SlowSearch is of a search that compares too much.
func SlowSearch(cause error) *Problem {
	p := kind("unavailable", "Not available now", 503, "The search took too long.", "Name sources, or fewer of them. The operator can have an index kept, which makes searches fast: docs/search.md.")
	p.retryAfter, p.cause = 5, cause
	return p
}

// TooLarge is of what is larger than it may be.
func TooLarge(detail, fix string) *Problem {
	return kind("too-large", "Too large", 413, detail, fix)
}

// Broken is of a body that is not what it says.
func Broken(detail string) *Problem {
	return kind("invalid", "Not valid", 400, detail, "Send it again, whole.")
}

// Internal is of a defect of ours.
func Internal(cause error) *Problem {
	p := kind("internal", "Internal error", 500, "Something is wrong with the service.", "Tell the operator the request_id: the log says more.")
	p.cause = cause
	return p
}

// fields are what the constraints of connectors say, by the field that each is about.
var fields = map[string]Field{
	"connectors_name_form":                {"body.name", "must have 1 to 200 characters"},
	"connectors_kind_stays":               {"body.type", "a source becomes no job, and a job no source"},
	"connectors_type_known":               {"body.type", "must be a type that /api/v1/types lists"},
	"connectors_user_id_positive":         {"body.user_id", "must be 1 or more"},
	"connectors_scope_known":              {"body.scope", "must be user, group, org or system"},
	"connectors_scope_id_form":            {"body.scope_id", "must have 1 to 128 letters, digits, _ or -"},
	"connectors_owner":                    {"body.user_id", "is left away with the scope system, and needed with every other"},
	"connectors_system_has_no_scope_id":   {"body.scope_id", "goes with the scope group"},
	"connectors_system_stays":             {"body.scope", "a system job stays one, of its type, and nothing else becomes one"},
	"connectors_system_type":              {"body.scope", "system is for types of the system, and they have no other"},
	"connectors_one_system_job":           {"body.type", "has its system job already: change that"},
	"connectors_group_has_scope_id":       {"body.scope_id", "is needed for the scope group"},
	"connectors_config_object":            {"body.config", "must be an object"},
	"connectors_config_size":              {"body.config", "must have at most 64 KiB"},
	"connectors_config_depth":             {"body.config", "must be nested at most 30 levels deep"},
	"connectors_refresh_range":            {"body.refresh_freq_minutes", "must be 0 to 5256000"},
	"connectors_refresh_chosen":           {"body.refresh_freq_minutes", "is needed, or schedule_cron: the type has no default"},
	"connectors_one_schedule":             {"body.schedule_cron", "give refresh_freq_minutes or schedule_cron, and null for the other"},
	"connectors_cron_length":              {"body.schedule_cron", "must have 1 to 200 characters"},
	"connectors_time_zone_length":         {"body.time_zone", "must have 1 to 64 characters"},
	"connectors_dst_gap_known":            {"body.dst_gap", "must be after, skip or before, or null"},
	"connectors_dst_overlap_known":        {"body.dst_overlap", "must be first, second or both, or null"},
	"connectors_max_retries_range":        {"body.max_retries", "must be 1 to 1000"},
	"connectors_policies":                 {"body", "a policy of slots is out of its range"},
	"connectors_keys_form":                {"body.concurrency_keys", "must be up to 4 of up to 128 letters, digits and _.:/@-, each beginning with a letter or a digit, and no user or password of a URL"},
	"connectors_per_owner":                {"body.user_id", "has as many connectors as the quota allows"},
	"calendars_entries_size":              {"body.entries", "must have at most 64 KiB together; leave some out, or write rules"},
	"owner_quotas_share_of_one":           {"body.max_concurrent_syncs", "is an owner's own; leave it out for user 0"},
	"connector_types_name_form":           {"path.name", "must be small letters, digits and _, beginning with a letter, and at most 63 characters"},
	"connector_types_name_is_the_systems": {"path.name", "is that of a job of the system; choose another"},
	"connector_types_refresh_range":       {"body.default_refresh_minutes", "must be 0 to 5256000, or null"},
	"connector_types_cap_range":           {"body.max_concurrent_syncs", "must be 0 (no cap) or more, or null"},
	"connector_types_keys_form":           {"body.concurrency_keys", "must be up to 4 of up to 128 letters, digits and _.:/@-, each beginning with a letter or a digit, and no user or password of a URL"},
	"connector_types_provider_form":       {"body.provider", "must be small letters, digits, _ and -, beginning with a letter, and at most 63 characters"},
	"connector_types_system_has_no_cap":   {"body.max_concurrent_syncs", "must be 0 for a type of the system, whose one job has one run at most"},
	"connector_types_system_has_no_keys":  {"body.concurrency_keys", "must be null for a type of the system: name the keys of its job"},
	"connector_types_system_is_job":       {"body.kind", "must be job for a type of the system"},
	"concurrency_limits_key_form":         {"path.key", "must be up to 128 letters, digits and _.:/@-, beginning with a letter or a digit, and no user or password of a URL"},
	"access_tokens_expires_range":         {"body.expires_at", "must be a time before the year 9999"},
	"access_tokens_expires_later":         {"body.expires_at", "must be in the future"},
	"access_tokens_most":                  {"body.user_id", "has 100 tokens; revoke one first"},
	"access_tokens_daily":                 {"body.user_id", "was made 1,000 tokens in a day; use those that there are"},
	"access_tokens_sessions":              {"body.token", "200 sessions were begun with it in a day; use one that there is"},
	"access_tokens_made_depth":            {"body", "a token that was made through 8 others makes none; take one that was made through fewer"},
	"group_members_most":                  {"body", "puts the user into more than 1,000 groups, and no more count; leave some"},
	"request_keys_key_length":             {"header.Idempotency-Key", "must have 1 to 200 characters"},
	"request_keys_same":                   {"header.Idempotency-Key", "is that of another request; take a new one for each"},
	"access_tokens_name_length":           {"body.name", "must have at most 200 characters"},
	"access_tokens_user_id_positive":      {"body.user_id", "must be 1 or more"},
}

// said are constraints whose trigger says more than the field's name: the value, and what to do.
var said = map[string]struct{ field, fix string }{
	"connectors_condition_allowed": {"body.condition", "name one that /api/v1/conditions lists for its owner, of a job, or null"},
	"run_after_allowed":            {"body.run_after", "name connectors that its owner sees, and 1,000 at most"},
	"run_after_no_cycle":           {"body.run_after", "take one of these away"},
	"uploaded_files_in_time":       {"body.file", "send it again"},
	"upload_places_files":          {"body.file", "delete some that are not needed, or have the operator raise API_UPLOAD_MAX_FILES"},
	"upload_places_bytes":          {"body.file", "delete some that are not needed, or have the operator raise API_UPLOAD_MAX_MB"},
	"upload_places_owner_bytes":    {"body.file", "delete some that are not needed, or have the operator raise API_UPLOAD_OWNER_MAX_MB"},
	"upload_places_left":           {"body.file", "try again later"},
}

// Of turns an error into an answer.
func Of(err error) *Problem {
	var p *Problem
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, pgx.ErrNoRows):
		return NotFound("such thing")
	case postgres.Locked(err):
		p := Conflict("Somebody else holds the row, and nothing was changed.", "Try again.")
		p.retryAfter, p.cause = 1, err
		return p
	case postgres.Unavailable(err), errors.Is(err, postgres.ErrPooler), errors.Is(err, context.Canceled):
		return Unavailable(err)
	case !errors.As(err, &pg):
		return Internal(err)
	case pg.Code == "44000": // the check option of a view: what it would become is not for who asks
		return Forbidden("You may not make it that.", "Ask somebody who may, or leave user_id, scope, scope_id and type as they are.")
	case pg.ConstraintName == "access_tokens_rights":
		return Forbidden("A token has at most the rights of its owner and of who makes it.", "Ask for a role and scopes that both have.")
	case pg.ConstraintName == "access_tokens_ends":
		return Forbidden("A token ends none that may more than it.", "Use one with its role and scopes, or ask a superadmin.")
	case pg.ConstraintName == "connectors_keys_administered":
		return Forbidden("Superadmins alone name concurrency keys: whose run has a place of one keeps others waiting.", "Leave concurrency_keys away, or ask a superadmin.")
	case pg.ConstraintName == "operations_most":
		return Conflict("You have 12 operations that have not ended.", "Wait until one has, or cancel one.")
	case pg.ConstraintName == "connectors_trigger_disabled":
		return Conflict("The connector is disabled.", "Enable it first.")
	}
	if field, known := fields[pg.ConstraintName]; known {
		return Invalid(field.Field, field.Detail)
	}
	if of, known := said[pg.ConstraintName]; known {
		return Invalid(of.field, strings.TrimPrefix(pg.Message, "run_after: ")+"; "+of.fix)
	}
	if postgres.Refused(err) {
		p := Invalid("body", "PostgreSQL refuses a value")
		if pg.ConstraintName != "" {
			p.Errors[0].Detail = "is refused by " + pg.ConstraintName
			if pg.Detail == "" && !strings.HasPrefix(pg.Message, "new row") { // a trigger's own words
				p.Errors[0].Detail = pg.Message
			}
		} else if pg.Code == "22023" { // a move's own words
			p.Errors[0].Detail = pg.Message
		}
		p.cause = err
		return p
	}
	return Internal(err)
}

// FromHuma is what huma says of a request that is not as the document has it.
func FromHuma(status int, message string, errs ...error) huma.StatusError {
	if len(errs) == 1 {
		var p *Problem
		if errors.As(errs[0], &p) {
			return p
		}
	}
	p := kind("invalid", http.StatusText(status), status, message, "The document at /api/v1/openapi.json says what is expected.")
	switch {
	case status == http.StatusRequestEntityTooLarge:
		p.Type = prefix + "too-large"
	case status == http.StatusUnsupportedMediaType:
		p.Type, p.Fix = prefix+"media-type", "Send application/json."
	case status == http.StatusNotAcceptable:
		p.Type = prefix + "not-acceptable"
	case status >= http.StatusInternalServerError:
		return Internal(fmt.Errorf("%s: %w", message, errors.Join(errs...)))
	}
	for _, err := range errs {
		var detailed huma.ErrorDetailer
		if errors.As(err, &detailed) {
			d := detailed.ErrorDetail()
			p.Errors = append(p.Errors, Field{Field: d.Location, Detail: d.Message})
		} else if err != nil {
			p.Errors = append(p.Errors, Field{Field: "body", Detail: "cannot be read"})
			p.cause = err
		}
	}
	return p
}
