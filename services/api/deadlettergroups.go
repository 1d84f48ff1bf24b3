package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/echomind/sync/internal/deadletter"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/secret"
	"github.com/echomind/sync/services/api/internal/problem"
)

const (
	// One answer with groups is of so many letters, in so many bytes of their texts, and of what is read in so much time.
	groupedLetters = 5000
	groupedTime    = 3 * time.Second
	// mostGroups is how many groups it has: the largest ones.
	mostGroups = 50
	// groupExamples is how many connectors of a group are named.
	groupExamples = 5
	// groupPortion is how many letters are looked at between two looks at the time.
	groupPortion = 200
	// maxGroup is how many bytes the reason of a group has at most. With it the reasons of a request are bounded, however many differ.
	maxGroup = 300
)

// particular is what differs between reasons that say the same: addresses, and long numbers.
var particular = regexp.MustCompile(`[a-z]+://[^ ]+|[0-9]{4,}`)

// groupOf is the reason of a letter's group: as it is shown, with … for an address or a long number.
func groupOf(l deadletter.Letter) string {
	reason := clipped(l.Reason, maxReason, secret.Text)
	return clipped(particular.ReplaceAllString(reason, "…"), maxGroup, nil)
}

// ofGroup says of a letter whether its group has a reason.
func ofGroup(reason string) func(deadletter.Letter) bool {
	return func(l deadletter.Letter) bool { return groupOf(l) == reason }
}

func (a *API) letterGroupRoutes() {
	register(a, identity.GroupDeadLetters, http.MethodGet, "/deadletters/groups", "Count dead letters by why they were given up, the most first", http.StatusOK, a.groupDeadLetters)
	register(a, identity.ReplayDeadLetters, http.MethodPost, "/deadletters/replay", "Have what many dead letters are about fetched again, and remove them", http.StatusOK, a.replayDeadLetters, mayBeAnew)
	register(a, identity.OperateDeadLetters, http.MethodPost, "/deadletters/operations", "Replay or remove very many dead letters in an operation that goes on by itself", http.StatusAccepted, a.createLettersOperation)
	register(a, identity.DropDeadLetters, http.MethodPost, "/deadletters/drop", "Remove many dead letters for good", http.StatusOK, a.dropDeadLetters, mayBeAnew)
}

// LetterGroups is how groups are asked for.
type LetterGroups struct {
	Subject     string `query:"subject" maxLength:"200" doc:"Of this original subject, as of /deadletters."`
	ConnectorID int64  `query:"connector_id" minimum:"1" maximum:"2147483647" format:"int32"`
	PageToken   string `query:"page_token" maxLength:"500" doc:"The next_page_token of an earlier answer, with the same filter: the groups of the letters behind those."`
}

// LetterGroup are dead letters that were given up for the same reason.
type LetterGroup struct {
	Reason     string    `json:"reason" doc:"With … for an address or a long number; empty: none was given. What replay and drop take."`
	Letters    int64     `json:"letters"`
	EarliestAt time.Time `json:"earliest_at"`
	LatestAt   time.Time `json:"latest_at"`
	Connectors []int32   `json:"connectors" nullable:"false" doc:"Up to five of them."`
}

// LetterGroupPage is what was counted.
type LetterGroupPage struct {
	Body struct {
		Groups        []LetterGroup `json:"groups" nullable:"false" doc:"The 50 with the most letters."`
		MoreGroups    int64         `json:"more_groups" doc:"How many groups are not listed."`
		Looked        int64         `json:"looked" doc:"How many letters were looked at, the oldest first."`
		NextPageToken *string       `json:"next_page_token" doc:"Null where all were looked at."`
	}
}

func (a *API) groupDeadLetters(ctx context.Context, in *LetterGroups) (*LetterGroupPage, error) {
	f, err := letterFilter("query.subject", in.Subject, in.ConnectorID)
	if err != nil {
		return nil, err
	}
	next, err := a.place(ctx, in.PageToken, []any{"deadletters.groups", in.Subject, in.ConnectorID}, &f.After)
	if err != nil {
		return nil, err
	}
	stream, err := a.letters(ctx)
	if err != nil {
		return nil, err
	}
	out, groups, isLast := &LetterGroupPage{}, map[string]*LetterGroup{}, false
	for until := time.Now().Add(groupedTime); !isLast && out.Body.Looked < groupedLetters && time.Now().Before(until); {
		found, err := deadletter.Some(ctx, stream, a.letterRuns, f, groupPortion, until)
		if err != nil {
			return nil, lettersUnread(err)
		}
		for _, l := range found.Letters {
			reason := groupOf(l)
			g := groups[reason]
			if g == nil {
				g = &LetterGroup{Reason: reason, EarliestAt: l.LastAt.UTC(), Connectors: []int32{}}
				groups[reason] = g
			}
			g.Letters++
			g.LatestAt = l.LastAt.UTC()
			if l.ConnectorID != 0 && len(g.Connectors) < groupExamples && !slices.Contains(g.Connectors, l.ConnectorID) {
				g.Connectors = append(g.Connectors, l.ConnectorID)
			}
		}
		f.After, isLast = found.After, found.IsLast
		out.Body.Looked += int64(len(found.Looked))
	}
	out.Body.Groups = make([]LetterGroup, 0, len(groups))
	for _, g := range groups {
		out.Body.Groups = append(out.Body.Groups, *g)
	}
	slices.SortFunc(out.Body.Groups, func(a, b LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), cmp.Compare(a.Reason, b.Reason))
	})
	if more := len(out.Body.Groups) - mostGroups; more > 0 {
		out.Body.Groups, out.Body.MoreGroups = out.Body.Groups[:mostGroups], int64(more)
	}
	if !isLast {
		out.Body.NextPageToken = next(f.After)
	}
	return out, nil
}

// letterFilter is which letters are meant.
func letterFilter(field, subject string, connectorID int64) (deadletter.Filter, error) {
	if subject != "" && !deadletter.SubjectForm.MatchString(subject) {
		return deadletter.Filter{}, problem.Invalid(field, "must be a subject such as document.process or connector.sync.*")
	}
	return deadletter.Filter{Subject: subject, ConnectorID: int32(connectorID)}, nil
}

// lettersUnread is the answer where letters cannot be read.
func lettersUnread(err error) error {
	if errors.Is(err, deadletter.ErrStream) {
		return problem.LettersAway(lettersAway, err)
	}
	return err
}
