package webhooks

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/internal/secret"
)

const (
	// postTimeout bounds a request: name, connection, TLS, answer.
	postTimeout = 15 * time.Second
	// mostAnswer is how much of an answer is read, mostLine how much of its first line is shown, in characters.
	mostAnswer = 4 << 10
	mostLine   = 200
)

// post sends one message once.
func (s *Service) post(ctx context.Context, address string, keys [][]byte, id, body string) (o outcome) {
	err := deadline.Do(ctx, "webhooks.post", postTimeout, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
		if err != nil {
			return err
		}
		now := time.Now()
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", "EchoMind-Sync-Webhooks/1")
		r.Header.Set(headerID, id)
		r.Header.Set(headerTimestamp, strconv.FormatInt(now.Unix(), 10))
		r.Header.Set(headerSignature, signatures(keys, id, now, body))
		transport := s.secure
		if r.URL.Scheme == "http" {
			transport = s.plain
		}
		client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, mostAnswer)) // what is cut off is only shown
		o = answered(answer, string(text), now)
		return nil
	})
	if err != nil {
		return outcome{text: saidOf(err)}
	}
	return o
}

// answered is what an answer means.
func answered(answer *http.Response, text string, now time.Time) outcome {
	o := outcome{status: answer.StatusCode, ok: answer.StatusCode/100 == 2, gone: answer.StatusCode == http.StatusGone}
	if o.ok {
		return o
	}
	o.text = "answered " + strconv.Itoa(o.status)
	switch {
	case o.status/100 == 3:
		o.text += "; redirects are not followed: change the URL"
	case o.status == http.StatusTooManyRequests, o.status == http.StatusServiceUnavailable:
		o.asked = repeat.RetryAfter(answer.Header, now)
	}
	if line := firstLine(text); line != "" {
		o.text += ": " + line
	}
	return o
}

// firstLine is the first line of an answer without what may be a secret.
func firstLine(text string) string {
	scanner := bufio.NewScanner(strings.NewReader(strings.ToValidUTF8(text, "")))
	if !scanner.Scan() {
		return ""
	}
	line := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, scanner.Text())
	return secret.Short(strings.TrimSpace(line), mostLine)
}

// saidOf is what the owner is told of a request without an answer: no address of this machine or of its resolver.
func saidOf(err error) string {
	var late *deadline.Error
	if errors.As(err, &late) {
		return "no answer within " + late.After.String()
	}
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		err = op.Err
	}
	return secret.Short(err.Error(), 400)
}
