package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/sdk/client"
)

const (
	// pageSize is how many of a list are asked for at a time: the most that the API gives.
	pageSize = 500
	// maxPages is how many pages of a list one command reads, which may be short; and maxRead how many bytes of them.
	maxPages = 4000
	maxRead  = 256 << 20
	// mostPaused is the longest that a list pauses where the API says that it was asked too often, and pauses how often it does for a page.
	mostPaused = 10 * time.Second
	pauses     = 10
)

// remote is an API that commands ask in place of the database. Its answers have the fields of what commands show, by the same names, and are read as that.
type remote struct {
	api    *client.ClientWithResponses
	server server
	finder *finder
}

func (f *finder) remote(s server) (*remote, error) {
	api, err := client.New(s.URL, s.Token)
	if err != nil {
		return nil, err
	}
	f.tellServer(s)
	return &remote{api, s, f}, nil
}

// said adds to an error of the API what helps somebody at a terminal.
func (r *remote) said(err error) error {
	var refused *client.Error
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Status == http.StatusUnauthorized && r.server.from == variableURL:
		return fmt.Errorf("%s does not take the token of %s: %w", printable(r.server.URL), variableToken, err)
	case refused.Status == http.StatusUnauthorized:
		return fmt.Errorf("%s does not take the token of %s: log in again (`echomind login %[1]s`): %[3]w", printable(r.server.URL), printable(r.server.from), err)
	case refused.RetryAfter > 0:
		return fmt.Errorf("%w; try again in %s", err, refused.RetryAfter)
	}
	return err
}

// notFound says whether the API has not found what it was asked for.
func notFound(err error) bool {
	var refused *client.Error
	var none noConnectorError
	return errors.As(err, &none) || errors.As(err, &refused) && refused.Status == http.StatusNotFound
}

// connectorError is the error of an operation on a connector.
func connectorError(id int32, what string, err error) error {
	if notFound(err) {
		return noConnector(id)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// is is nil for an answer that is one to what was asked; another is not the API's, whatever its status says.
func (r *remote) is(answers bool) error {
	if answers {
		return nil
	}
	return strange(r.server)
}

func strange(s server) error {
	return fmt.Errorf("%s does not answer as the API of EchoMind does: is the address right?", printable(s.URL))
}

// forbidden says whether the token may not ask that.
func forbidden(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Status == http.StatusForbidden
}

// readAs reads an answer of the API as what a command shows.
func readAs[T any](answer []byte) (what T, err error) {
	if err := json.Unmarshal(answer, &what); err != nil {
		return what, fmt.Errorf("read the answer of the API: %w", err)
	}
	return what, nil
}

// patiently asks again where the API says that it was asked too often, a few times, as long as ctx lasts.
func patiently[T any](ctx context.Context, ask func() (T, error)) (answer T, err error) {
	return patientlyWhile(ctx, http.StatusTooManyRequests, ask)
}

// patientlyWhile asks again where the API answers with a status and says when to, a few times, as long as ctx lasts.
func patientlyWhile[T any](ctx context.Context, status int, ask func() (T, error)) (answer T, err error) {
	for tried := 0; ; tried++ {
		answer, err = ask()
		var refused *client.Error
		if !errors.As(err, &refused) || refused.Status != status || status == http.StatusConflict && refused.RetryAfter == 0 || refused.RetryAfter > mostPaused || tried == pauses {
			return answer, err
		}
		if ended := repeat.Sleep(ctx, max(refused.RetryAfter, time.Second)); ended != nil {
			return answer, errors.Join(ended, err)
		}
	}
}

// readPages reads a list until enough says so. ask answers a page; list is the field of it that has what is listed.
func readPages[T any](ctx context.Context, list string, ask func(token *string) ([]byte, error), enough func(T) bool) (all []T, err error) {
	pages, bytes := 0, 0
	for one, err := range client.Pages(func(token *string) (page []T, next *string, err error) {
		if pages++; pages > maxPages {
			return nil, nil, fmt.Errorf("the list has more than %d pages: ask for less of it", maxPages)
		}
		answer, err := patiently(ctx, func() ([]byte, error) { return ask(token) })
		if err != nil {
			return nil, nil, err
		}
		fields, err := readAs[map[string]json.RawMessage](answer)
		if err != nil {
			return nil, nil, err
		}
		rows, err := readAs[[]json.RawMessage](fields[list])
		if err != nil {
			return nil, nil, err
		}
		if bytes += len(answer); bytes > maxRead || len(rows) > pageSize {
			return nil, nil, fmt.Errorf("the list is too long, or a page of it has more than %d: ask for less of it", pageSize)
		}
		page = make([]T, len(rows))
		for i, row := range rows {
			if page[i], err = readAs[T](row); err != nil {
				return nil, nil, err
			}
		}
		next, err = readAs[*string](fields["next_page_token"])
		return page, next, err
	}) {
		if err != nil {
			return nil, err
		}
		if all = append(all, one); enough(one) {
			break
		}
	}
	return all, nil
}

func never[T any](T) bool { return false }

// shortPage is the length of a page where the server counts something for each entry.
const shortPage = 100

// upToMost are the first of a list, as many as the command shows on the database.
func upToMost[T any](ctx context.Context, list string, most int, ask func(token *string) ([]byte, error)) ([]T, error) {
	read := 0
	all, err := readPages(ctx, list, ask, func(T) bool { read++; return read == most })
	if all == nil {
		all = []T{}
	}
	return all, err
}

// connectorID is the number of the connector that somebody names, as the function of the same name finds it in the database.
func (r *remote) connectorID(ctx context.Context, text string) (int32, error) {
	if isNumber(text) {
		return parseID(text)
	}
	var named []namedConnector
	_, err := readPages(ctx, "connectors", func(token *string) ([]byte, error) {
		answer, err := r.api.ConnectorsListWithResponse(ctx, &client.ConnectorsListParams{Name: &text, PageSize: new(int32(pageSize)), PageToken: token})
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(c connector) bool {
		if c.Name == text {
			named = append(named, namedConnector{c.ID, c.Type, c.UserID})
		}
		return len(named) == sameName
	})
	if err != nil {
		return 0, fmt.Errorf("look for connector %q: %w", clip(text, 40), err)
	}
	return theOneNamed(text, named)
}

// sync asks for a sync, and returns when it was asked for.
func (r *remote) sync(ctx context.Context, id int32, allowDeletions bool, with *runParameters) (time.Time, error) {
	if with.given {
		if err := with.checkSecrets(id); err != nil {
			return time.Time{}, err
		}
	}
	body, err := json.Marshal(struct {
		AllowDeletions bool            `json:"allow_deletions,omitempty"`
		Parameters     json.RawMessage `json:"parameters,omitempty"`
	}{allowDeletions, with.json()})
	if err != nil {
		return time.Time{}, err
	}
	answer, err := r.api.ConnectorsSyncWithBodyWithResponse(ctx, id, &client.ConnectorsSyncParams{}, "application/json", strings.NewReader(string(body)))
	if err != nil {
		return time.Time{}, connectorError(id, fmt.Sprintf("trigger connector %d", id), err)
	}
	asked, err := readAs[client.AskedBody](answer.Body)
	if err == nil {
		err = r.is(!asked.TriggerRequestedAt.IsZero())
	}
	return asked.TriggerRequestedAt, err
}
