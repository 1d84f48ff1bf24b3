package console

import (
	"context"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/sdk/client"
)

// makeToken makes a token of a user; user 0 is the user who is logged in; minutes null: it does not end.
func (r *remote) makeToken(ctx context.Context, user int32, name string, role identity.Role, may []identity.Scope, minutes *int32) (made tokenView, err error) {
	body := client.NewTokenBody{Name: &name, Role: new(client.NewTokenBodyRole(role))}
	if user != 0 {
		body.UserID = &user
	}
	scopes := make([]string, len(may))
	for i, scope := range may {
		scopes[i] = string(scope)
	}
	body.Scopes = &scopes
	if minutes != nil {
		body.ExpiresAt = new(time.Now().Add(time.Duration(*minutes) * time.Minute).UTC())
	}
	answer, err := r.api.TokensCreateWithResponse(ctx, &client.TokensCreateParams{}, body)
	if err != nil {
		return made, fmt.Errorf("make the token: %w", err)
	}
	if made, err = readAs[tokenView](answer.Body); err == nil {
		err = r.is(made.Token != "" && made.Token == printable(made.Token))
	}
	return made, err
}

// tokensOf are the tokens of a user, or all that a server shows.
func (r *remote) tokensOf(ctx context.Context, user *int32) (list tokenList, err error) {
	p := client.TokensListParams{UserID: user, PageSize: new(int32(pageSize))}
	read := 0
	list.seen = time.Now()
	list.tokens, err = readPages(ctx, "tokens", func(token *string) ([]byte, error) {
		p.PageToken = token
		answer, err := r.api.TokensListWithResponse(ctx, &p)
		if err != nil {
			return nil, err
		}
		return answer.Body, nil
	}, func(tokenView) bool { read++; return read == maxTokens })
	if err != nil {
		return list, fmt.Errorf("list the tokens: %w", err)
	}
	if list.tokens == nil {
		list.tokens = []tokenView{}
	}
	return list, nil
}

// revoke ends a token. Whether it was over before is what a list has said before.
func (r *remote) revoke(ctx context.Context, id int32) (done revokedToken, err error) {
	before, err := r.tokensOf(ctx, nil)
	if err != nil {
		return done, err
	}
	answer, err := r.api.TokensRevokeWithResponse(ctx, id, &client.TokensRevokeParams{})
	if notFound(err) {
		return done, noToken(id)
	}
	if err != nil {
		return done, fmt.Errorf("revoke the token: %w", err)
	}
	after, err := readAs[tokenView](answer.Body)
	if err == nil {
		err = r.is(after.ID == id)
	}
	done = revokedToken{ID: id, Revoked: true}
	for _, t := range before.tokens {
		if t.ID == id && t.RevokedAt != nil {
			done.Revoked = false
		}
	}
	return done, err
}
