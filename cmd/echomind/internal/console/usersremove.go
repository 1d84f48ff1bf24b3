package console

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

// removedUser is what was done.
type removedUser struct {
	UserID        int32 `json:"user_id"`
	TokensRevoked int64 `json:"tokens_revoked"`
	Unlinked      int64 `json:"unlinked"`
}

// groupsAtOnce is how many groups one transaction takes a removed user out of.
const groupsAtOnce = 2000

func usersRemove(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "remove USER", Short: "Revoke a user's tokens, and forget their role and groups",
		Long: `Revoke the tokens of a user, even without a role or groups, and those that were made with them for others; the user is in no group any more,
and no issuer signs them in (` + "`echomind users link`" + ` has it do so again). Their connectors stay.`,
		Example: "  echomind users remove 7", Args: oneUser,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		user, err := userNumber(args[0])
		if err != nil {
			return err
		}
		removed, err := either(c.Context(), f, func(pool *pgxpool.Pool) (removedUser, error) {
			removed, last, err := removeUser(c.Context(), pool, user)
			if err == nil && last {
				err = warnOfLast(c.ErrOrStderr())
			}
			if err != nil {
				return removed, told(fmt.Sprintf("remove user %d", user), err)
			}
			return removed, nil
		}, func(r *remote) (removedUser, error) { return r.removeUser(c.Context(), user) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), removed, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "user %d is removed; tokens revoked: %d\n", user, removed.TokensRevoked)
			return err
		})
	}
	return c
}

// removeUser removes a user, in as many transactions as their groups need. last: there is no superadmin any more.
func removeUser(ctx context.Context, pool *pgxpool.Pool, user int32) (removed removedUser, last bool, err error) {
	removed.UserID = user
	for isFirst, left := true, int64(groupsAtOnce); left >= groupsAtOnce && err == nil; isFirst = false {
		err = deadline.Do(ctx, "console.remove_user", queryTimeout, func(ctx context.Context) error {
			return postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
				q := dbgen.New(tx)
				if err := q.LockUser(ctx, user); err != nil {
					return err
				}
				if isFirst {
					if last, err = takesLast(ctx, q, func() error { return forgetUser(ctx, q, &removed) }); err != nil {
						return err
					}
				}
				left, err = q.LeaveGroups(ctx, dbgen.LeaveGroupsParams{UserID: user, Most: groupsAtOnce})
				return err
			})
		})
	}
	return removed, last, err
}

// forgetUser revokes the tokens of a user, forgets their role, and has no issuer sign them in.
func forgetUser(ctx context.Context, q *dbgen.Queries, user *removedUser) (err error) {
	if user.TokensRevoked, err = q.RevokeTokensOf(ctx, user.UserID); err != nil {
		return err
	}
	if user.Unlinked, err = q.UnlinkUser(ctx, user.UserID); err != nil {
		return err
	}
	if err := q.RemoveUser(ctx, user.UserID); err != nil {
		return err
	}
	return q.BarUser(ctx, user.UserID)
}

// takesLast does work, and says whether that has taken away the last superadmin whom the database knows.
func takesLast(ctx context.Context, q *dbgen.Queries, work func() error) (bool, error) {
	had, err := q.HasSuperadmin(ctx)
	if err == nil {
		err = work()
	}
	if err != nil || !had {
		return false, err
	}
	has, err := q.HasSuperadmin(ctx)
	return !has, err
}

// warnOfLast says what follows. It is no refusal: anyone who may write to the database can make another one.
func warnOfLast(w io.Writer) error {
	_, err := fmt.Fprintln(w, "warning: that was the last superadmin whom the database knows; unless an issuer or a proxy says who else is one, nobody administers by the API or the page until `echomind users set USER --role superadmin` makes another")
	return err
}
