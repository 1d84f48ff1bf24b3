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
			removed := removedUser{UserID: user}
			err := deadline.Do(c.Context(), "console.remove_user", queryTimeout, func(ctx context.Context) error {
				return postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
					q := dbgen.New(tx)
					if removed.TokensRevoked, err = q.RevokeTokensOf(ctx, user); err != nil {
						return err
					}
					if err := q.LeaveGroups(ctx, user); err != nil {
						return err
					}
					if removed.Unlinked, err = q.UnlinkUser(ctx, user); err != nil {
						return err
					}
					if err := q.RemoveUser(ctx, user); err != nil {
						return err
					}
					return q.BarUser(ctx, user)
				})
			})
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
