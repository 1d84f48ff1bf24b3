package console

import (
	"context"
	"fmt"

	"github.com/echomind/sync/sdk/client"
)

// setUser sets what is given of a user.
func (r *remote) setUser(ctx context.Context, user int32, role string, member, lead, leave []string) ([]userView, error) {
	body := client.UsersUpdateJSONRequestBody{Role: (*client.UpdateUserBodyRole)(textOr(role)), Member: textsOr(member), Lead: textsOr(lead), Leave: textsOr(leave)}
	answer, err := r.api.UsersUpdateWithResponse(ctx, user, &client.UsersUpdateParams{IfMatch: new("*")}, body)
	if err != nil {
		return nil, fmt.Errorf("set user %d: %w", user, err)
	}
	set, err := readAs[userView](answer.Body)
	if err == nil {
		err = r.is(set.UserID == user)
	}
	if set.Role == nil && len(set.Groups) == 0 { // nothing is said of them any more
		return []userView{}, err
	}
	return []userView{set}, err
}

// textsOr is nil for none.
func textsOr(texts []string) *[]string {
	if len(texts) == 0 {
		return nil
	}
	return &texts
}

// removeUser asks again while the user is left in some of very many groups.
func (r *remote) removeUser(ctx context.Context, user int32) (all removedUser, _ error) {
	for {
		answer, err := r.api.UsersRemoveWithResponse(ctx, user, &client.UsersRemoveParams{IfMatch: new("*")})
		if err != nil {
			return all, fmt.Errorf("remove user %d: %w", user, err)
		}
		removed, err := readAs[struct {
			removedUser
			GroupsLeft bool `json:"groups_left"`
		}](answer.Body)
		if err == nil {
			err = r.is(removed.UserID == user)
		}
		all = removedUser{user, all.TokensRevoked + removed.TokensRevoked, all.Unlinked + removed.Unlinked}
		if err != nil || !removed.GroupsLeft {
			return all, err
		}
	}
}

func (r *remote) linkUser(ctx context.Context, who identityView) error {
	answer, err := r.api.UsersLinksPutWithResponse(ctx, client.UsersLinksPutJSONRequestBody{Issuer: who.Issuer, Subject: who.Subject, UserID: *who.UserID})
	if err != nil {
		return fmt.Errorf("link user %d: %w", *who.UserID, err)
	}
	linked, err := readAs[identityView](answer.Body)
	if err == nil {
		err = r.is(linked.Subject == who.Subject)
	}
	return err
}

// unlinkUser says whether the subject is known.
func (r *remote) unlinkUser(ctx context.Context, who identityView) (known bool, err error) {
	answer, err := r.api.UsersLinksRemoveWithResponse(ctx, client.UsersLinksRemoveJSONRequestBody{Issuer: who.Issuer, Subject: who.Subject})
	if notFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("unlink a user: %w", err)
	}
	gone, err := readAs[identityView](answer.Body)
	if err == nil {
		err = r.is(gone.Subject == who.Subject)
	}
	return true, err
}
