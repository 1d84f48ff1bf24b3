package console

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/internal/postgres"
)

// maxUsers is how many users one command lists.
const maxUsers = 10000

// userView is what programs are shown of a user. The role is null where nobody has said what it is.
type userView struct {
	UserID int32    `json:"user_id"`
	Role   *string  `json:"role"`
	Groups []string `json:"groups"`
	Leads  []string `json:"leads"`
}

func users(f *finder) *cobra.Command {
	return group("users", "Say what users may do, and in which groups they are",
		"What users may do through the API: their role, and the groups whose connectors they see or lead. A user without these "+
			"sees their own connectors, and those of the organisation.", usersSet(f), usersList(f), usersLink(f), usersUnlink(f), usersLinks(f), usersRemove(f))
}

func usersSet(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "set USER", Short: "Set a user's role and groups",
		Long: `Set what is given of a user; the rest stays. A group is called as in --scope-id of its connectors. Its members see its connectors; who leads
it changes them too, and an administrator who is a member also adds some.`,
		Example: "  echomind users set 7 --role admin\n  echomind users set 7 --member eng --lead docs --leave sales",
		Args:    oneUser,
	}
	role := c.Flags().String("role", "", "user, admin or superadmin")
	member := c.Flags().StringSlice("member", nil, "groups that the user is in, and does not lead")
	lead := c.Flags().StringSlice("lead", nil, "groups that the user is in and leads")
	leave := c.Flags().StringSlice("leave", nil, "groups that the user is not in any more")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		user, err := userNumber(args[0])
		if err != nil {
			return err
		}
		if err := somethingGiven(c); err != nil {
			return err
		}
		if *role != "" {
			if _, err := identity.ParseRole(*role); err != nil {
				return usagef("--role: %v", err)
			}
		}
		for flag, groups := range map[string][]string{"member": *member, "lead": *lead, "leave": *leave} {
			if err := checkGroups(flag, groups); err != nil {
				return err
			}
		}
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]userView, error) {
			var last bool
			err := deadline.Do(c.Context(), "console.set_user", queryTimeout, func(ctx context.Context) error {
				return postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
					q := dbgen.New(tx)
					if err := q.LockUser(ctx, user); err != nil {
						return err
					}
					last, err = takesLast(ctx, q, func() error {
						return setUser(ctx, q, user, *role, map[bool][]string{false: *member, true: *lead}, *leave)
					})
					return err
				})
			})
			if err == nil && last {
				err = warnOfLast(c.ErrOrStderr())
			}
			if err != nil {
				return nil, told(fmt.Sprintf("set user %d", user), err)
			}
			return listUsers(c.Context(), pool, &user)
		}, func(r *remote) ([]userView, error) {
			return r.setUser(c.Context(), user, *role, *member, *lead, *leave)
		})
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found, func(w io.Writer) error { return printUsers(w, found) })
	}
	return c
}

func oneUser(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs one USER, a user's number", c.CommandPath())
	}
	return nil
}

func userNumber(text string) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, usagef("USER %q: must be a user's number, 1 or more", clip(text, 40))
	}
	return int32(n), nil
}

func setUser(ctx context.Context, q *dbgen.Queries, user int32, role string, in map[bool][]string, leave []string) error {
	if role != "" {
		if err := q.SetUser(ctx, dbgen.SetUserParams{UserID: user, Role: role}); err != nil {
			return err
		}
	}
	for _, leads := range []bool{false, true} {
		for _, group := range in[leads] {
			if err := q.SetMember(ctx, dbgen.SetMemberParams{UserID: user, GroupID: group, Leads: leads}); err != nil {
				return err
			}
		}
	}
	for _, group := range leave {
		if err := q.LeaveGroup(ctx, dbgen.LeaveGroupParams{UserID: user, GroupID: group}); err != nil {
			return err
		}
	}
	return nil
}

var groupForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

func checkGroups(flag string, groups []string) error {
	for _, group := range groups {
		if !groupForm.MatchString(group) {
			return usagef("--%s %q: a group has 1 to 128 letters, digits, _ or -", flag, clip(group, 40))
		}
	}
	return nil
}

func usersList(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List users with a role or groups", Long: "List users whose role or groups are set.",
		Example: "  echomind users list", Args: cobra.NoArgs,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]userView, error) { return listUsers(c.Context(), pool, nil) },
			func(r *remote) ([]userView, error) { return r.users(c.Context()) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found, func(w io.Writer) error { return printUsers(w, found) })
	}
	return c
}

func listUsers(ctx context.Context, pool *pgxpool.Pool, user *int32) ([]userView, error) {
	found, err := ask(ctx, pool, "users", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListUsersRow, error) {
		return q.ListUsers(ctx, dbgen.ListUsersParams{UserID: user, Page: maxUsers})
	})
	if err != nil {
		return nil, fmt.Errorf("list the users: %w", err)
	}
	views := make([]userView, len(found))
	for i, u := range found {
		views[i] = userView{UserID: u.UserID, Role: u.Role, Groups: u.Groups, Leads: u.Leads}
	}
	return views, nil
}

func printUsers(w io.Writer, found []userView) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "nothing is said of any user; `echomind users set --help` says how")
		return err
	}
	rows := make([][]string, len(found))
	for i, u := range found {
		groups, leads := strings.Join(u.Groups, ","), strings.Join(u.Leads, ",")
		rows[i] = []string{strconv.Itoa(int(u.UserID)), orDash(u.Role), orDash(&groups), orDash(&leads)}
	}
	return table(w, []string{"USER", "ROLE", "GROUPS", "LEADS"}, rows)
}
