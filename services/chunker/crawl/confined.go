package crawl

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"unicode/utf8"

	"github.com/echomind/sync/internal/confine"
)

// Runner runs a task in a child process; *confine.Share is one.
type Runner interface {
	Do(ctx context.Context, task string, most int64, read func(answer string) error, parts ...[]byte) error
}

// Task reads the outline of a page in a child process: a question as JSON, with its length of 32 bits before it, then
// the page; the answer is JSON.
var Task = confine.Task{Name: "outline", Run: answerOutline}

// question is what a child needs to know beside the page.
type question struct {
	At, Token, Origin, Prefix string
	Aliases                   []string
	IgnoreQuery               bool
}

// childAnswer is an outline, or why there is none.
type childAnswer struct {
	Links              []string
	Canonical, Problem string
	Noindex, Nofollow  bool
}

const (
	lengthBytes = 4
	// maxAnswerBytes has room for links whose every byte is escaped by JSON, and a problem.
	maxAnswerBytes  = 6*maxLinkBytes + 16<<10
	maxProblemBytes = 1000
)

var errAnswer = errors.New("its answer is not what it should be")

// outlineOf reads an HTML page that was found at its canonical URL.
func (c *crawler) outlineOf(ctx context.Context, body []byte, at *url.URL) (outline, error) {
	head, err := json.Marshal(question{
		At: at.String(), Token: c.robotsToken, Origin: c.scope.origin.String(), Prefix: c.scope.prefix,
		Aliases: slices.Sorted(maps.Keys(c.scope.aliases)), IgnoreQuery: c.scope.ignoreQuery,
	})
	if err != nil {
		return outline{}, fmt.Errorf("ask for a page's links: %w", err)
	}
	head = append(binary.BigEndian.AppendUint32(nil, uint32(len(head))), head...)
	var answer childAnswer
	err = c.opt.Runner.Do(ctx, Task.Name, maxAnswerBytes, func(raw string) (err error) {
		answer, err = c.checkAnswer(raw)
		return err
	}, head, body)
	if err != nil {
		return outline{}, err
	}
	if answer.Problem != "" {
		return outline{}, errors.New(answer.Problem)
	}
	return outline{links: answer.Links, canonical: answer.Canonical, noindex: answer.Noindex, nofollow: answer.Nofollow}, nil
}

// checkAnswer decodes the answer of a child and accepts only what a child may say.
func (c *crawler) checkAnswer(raw string) (childAnswer, error) {
	var answer childAnswer
	if err := json.Unmarshal([]byte(raw), &answer); err != nil {
		return childAnswer{}, errAnswer
	}
	size := 0
	for _, link := range answer.Links {
		if size += len(link) + linkOverhead; !c.covers(link) {
			return childAnswer{}, errAnswer
		}
	}
	if len(answer.Links) > maxLinks || size > maxLinkBytes || len(answer.Problem) > maxProblemBytes ||
		answer.Canonical != "" && !c.covers(answer.Canonical) {
		return childAnswer{}, errAnswer
	}
	return answer, nil
}

// covers tells whether a link of a child's answer is in the scope.
func (c *crawler) covers(link string) bool {
	u, err := url.Parse(link)
	if err != nil {
		return false
	}
	_, ok := c.scope.admit(u)
	return ok && utf8.ValidString(link)
}

// answerOutline is the function of Task.
func answerOutline(request []byte) []byte {
	answer, err := outlineFor(request)
	if err != nil {
		answer = childAnswer{Problem: clip(err.Error(), maxProblemBytes)}
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return nil // it has only values that JSON can encode
	}
	return raw
}

func outlineFor(request []byte) (childAnswer, error) {
	if len(request) < lengthBytes {
		return childAnswer{}, errors.New("the request is cut off")
	}
	size, body := binary.BigEndian.Uint32(request), request[lengthBytes:]
	if uint64(size) > uint64(len(body)) {
		return childAnswer{}, errors.New("the request is cut off")
	}
	var q question
	if err := json.Unmarshal(body[:size], &q); err != nil {
		return childAnswer{}, err
	}
	at, err := url.Parse(q.At)
	if err != nil {
		return childAnswer{}, err
	}
	origin, err := url.Parse(q.Origin)
	if err != nil {
		return childAnswer{}, err
	}
	sc := &scope{origin: origin, prefix: q.Prefix, ignoreQuery: q.IgnoreQuery, aliases: map[string]bool{}}
	for _, alias := range q.Aliases {
		sc.aliases[alias] = true
	}
	o := readOutline(body[size:], at, sc, q.Token)
	return childAnswer{Links: o.links, Canonical: o.canonical, Noindex: o.noindex, Nofollow: o.nofollow}, nil
}
