package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/identity"
)

// maxTokens is how many tokens one command lists.
const maxTokens = 10000

// tokenView is what programs are shown of a token.
type tokenView struct {
	ID int32 `json:"id"`
	// Token is the token itself, which is shown once: when it is made.
	Token      string     `json:"token,omitempty"`
	UserID     int32      `json:"user_id"`
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	Scopes     []string   `json:"scopes"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
}

func tokens(f *finder) *cobra.Command {
	return group("tokens", "Make, list and revoke tokens of the API",
		"A token signs a program in to the API, as one user, with a role and scopes. It may never do more than its user may.",
		tokensCreate(f), tokensList(f), tokensRevoke(f))
}

func tokensCreate(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "create [--user N]", Short: "Make a token, and print it once",
		Long: `Make a token, and print it once: only a hash of it is kept.

Scopes: read looks; operate triggers, enables, disables and cancels; write adds, changes and deletes; admin is for what the system itself
is changed with. The role is user, admin or superadmin. Where echomind users set has said what the user's role is, the token's is at most
that, also when that changes later.

Through a server it is a token of who is logged in, unless --user says whose; it may do no more than the one that it is asked for with.`,
		Example: "  echomind tokens create --user 7 --role user --scopes read,operate\n" +
			"  echomind tokens create --user 7 --scopes read --expires 90d --name dashboard -o json",
		Args: cobra.NoArgs,
	}
	user := c.Flags().Int32("user", 0, "number of the user whose token it is")
	name := c.Flags().String("name", "", "what it is for")
	role := c.Flags().String("role", string(identity.User), "user, admin or superadmin")
	scopes := c.Flags().StringSlice("scopes", []string{string(identity.Read)}, "what it may be used for: read, operate, write, admin")
	var expires limit
	c.Flags().Var(&expires, "expires", "it ends so long from now; none = it does not")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		given := c.Flags().Changed("user")
		of, err := identity.ParseRole(*role)
		if err != nil {
			return usagef("--role: %v", err)
		}
		may, err := identity.ParseScopes(*scopes)
		if err != nil {
			return usagef("--scopes: %v", err)
		}
		switch {
		case given && *user < 1:
			return usagef("--user %d: must be a user's number, 1 or more", *user)
		case len([]rune(*name)) > 200:
			return usagef("--name: must have at most 200 characters")
		}
		made, err := either(c.Context(), f, func(pool *pgxpool.Pool) (tokenView, error) {
			if !given {
				return tokenView{}, usagef("--user: must be the number of the user whose token it is")
			}
			return makeToken(c.Context(), pool, *user, *name, of, may, expires.column())
		}, func(r *remote) (tokenView, error) {
			return r.makeToken(c.Context(), *user, *name, of, may, expires.column())
		})
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), made, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, made.Token)
			return err
		})
	}
	return c
}

// makeToken makes a token of a user; minutes null: it does not end.
func makeToken(ctx context.Context, pool *pgxpool.Pool, user int32, name string, role identity.Role, may []identity.Scope, minutes *int32) (tokenView, error) {
	known, err := ask(ctx, pool, "role_of", func(ctx context.Context, q *dbgen.Queries) (string, error) { return q.RoleOf(ctx, user) })
	switch {
	case err == nil && !identity.Role(known).AtLeast(role):
		return tokenView{}, fmt.Errorf("user %d has the role %s, and a token has at most its user's; "+
			"`echomind users set %d --role %s` changes that", user, known, user, role)
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return tokenView{}, fmt.Errorf("read the user's role: %w", err)
	}
	secret, by := identity.NewSecret(), person()
	p := dbgen.CreateTokenParams{UserID: user, Name: name, Role: string(role), SecretSha256: secret.Hash(), CreatedBy: *by}
	for _, scope := range may {
		p.Scopes = append(p.Scopes, string(scope))
	}
	if minutes != nil {
		moment, err := ask(ctx, pool, "now", now)
		if err != nil {
			return tokenView{}, fmt.Errorf("read the time: %w", err)
		}
		p.ExpiresAt = new(moment.Add(time.Duration(*minutes) * time.Minute).UTC())
	}
	made, err := ask(ctx, pool, "create_token", func(ctx context.Context, q *dbgen.Queries) (dbgen.CreateTokenRow, error) {
		return q.CreateToken(ctx, p)
	})
	if err != nil {
		return tokenView{}, told("make the token", err)
	}
	return tokenView{
		ID: made.ID, Token: identity.Token(made.ID, secret), UserID: user, Name: name, Role: string(role), Scopes: p.Scopes,
		CreatedAt: made.CreatedAt.UTC(), CreatedBy: *by, ExpiresAt: p.ExpiresAt,
	}, nil
}

func tokensList(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List tokens", Long: "List tokens, also those that are over. Nothing shows a token again. When it was used last is true to the hour.",
		Example: "  echomind tokens list --user 7", Args: cobra.NoArgs,
	}
	user := c.Flags().Int32("user", 0, "only those of this user")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if c.Flags().Changed("user") && *user < 1 {
			return usagef("--user %d: must be a user's number, 1 or more", *user)
		}
		var of *int32
		if c.Flags().Changed("user") {
			of = user
		}
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (tokenList, error) { return tokensOf(c.Context(), pool, of) },
			func(r *remote) (tokenList, error) { return r.tokensOf(c.Context(), of) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found.tokens, found.print)
	}
	return c
}

// tokenList are tokens at a moment.
type tokenList struct {
	tokens []tokenView
	seen   time.Time
}

// tokensOf are the tokens of a user, or of all.
func tokensOf(ctx context.Context, pool *pgxpool.Pool, user *int32) (list tokenList, err error) {
	if list.seen, err = ask(ctx, pool, "now", now); err != nil {
		return list, fmt.Errorf("read the time: %w", err)
	}
	found, err := ask(ctx, pool, "tokens", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListTokensRow, error) {
		return q.ListTokens(ctx, dbgen.ListTokensParams{UserID: user, Page: maxTokens})
	})
	if err != nil {
		return list, fmt.Errorf("list the tokens: %w", err)
	}
	list.tokens = make([]tokenView, len(found))
	for i, t := range found {
		if through := t.ThroughRevokedAt; through != nil && (t.RevokedAt == nil || through.Before(*t.RevokedAt)) {
			t.RevokedAt = through
		}
		list.tokens[i] = tokenView{
			ID: t.ID, UserID: t.UserID, Name: t.Name, Role: t.Role, Scopes: t.Scopes, CreatedAt: t.CreatedAt.UTC(), CreatedBy: t.CreatedBy,
			ExpiresAt: utc(t.ExpiresAt), RevokedAt: utc(t.RevokedAt), LastUsedAt: utc(t.LastUsedAt),
		}
	}
	return list, nil
}

func (l tokenList) print(w io.Writer) error {
	if len(l.tokens) == 0 {
		_, err := fmt.Fprintln(w, "no tokens; `echomind tokens create --help` says how to make one")
		return err
	}
	rows := make([][]string, len(l.tokens))
	for i, t := range l.tokens {
		rows[i] = []string{
			strconv.Itoa(int(t.ID)), strconv.Itoa(int(t.UserID)), t.Name, t.Role, strings.Join(t.Scopes, ","), t.ends(l.seen), clock.Optional(t.LastUsedAt, l.seen),
		}
	}
	return table(w, []string{"ID", "USER", "NAME", "ROLE", "SCOPES", "ENDS", "LAST USED"}, rows)
}

func (t tokenView) ends(now time.Time) string {
	switch {
	case t.RevokedAt != nil:
		return "revoked"
	case t.ExpiresAt == nil:
		return "never"
	case !t.ExpiresAt.After(now):
		return "ended"
	}
	return clock.At(*t.ExpiresAt, now)
}

// revokedToken is what was done.
type revokedToken struct {
	ID      int32 `json:"id"`
	Revoked bool  `json:"revoked"`
}

func tokensRevoke(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "revoke ID", Short: "End a token", Long: "End a token, from the next request on. To revoke one twice is no error.",
		Example: "  echomind tokens revoke 3",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one ID, as `echomind tokens list` shows it", c.CommandPath())
			}
			return nil
		},
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		n, err := strconv.ParseInt(args[0], 10, 32)
		if err != nil || n < 1 {
			return usagef("ID %q: must be a token's number", clip(args[0], 40))
		}
		id := int32(n)
		done, err := either(c.Context(), f, func(pool *pgxpool.Pool) (revokedToken, error) { return revoke(c.Context(), pool, id) },
			func(r *remote) (revokedToken, error) { return r.revoke(c.Context(), id) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), done, func(w io.Writer) error {
			already := ""
			if !done.Revoked {
				already = " already"
			}
			_, err := fmt.Fprintf(w, "token %d is revoked%s\n", id, already)
			return err
		})
	}
	return c
}

func revoke(ctx context.Context, pool *pgxpool.Pool, id int32) (revokedToken, error) {
	rows, err := ask(ctx, pool, "revoke_token", func(ctx context.Context, q *dbgen.Queries) (int64, error) { return q.RevokeToken(ctx, id) })
	if err != nil {
		return revokedToken{}, told("revoke the token", err)
	}
	there, err := ask(ctx, pool, "has_token", func(ctx context.Context, q *dbgen.Queries) (bool, error) { return q.HasToken(ctx, id) })
	if err != nil {
		return revokedToken{}, fmt.Errorf("look for the token: %w", err)
	}
	if !there {
		return revokedToken{}, noToken(id)
	}
	return revokedToken{id, rows == 1}, nil
}

func noToken(id int32) error {
	return fmt.Errorf("there is no token %d; `echomind tokens list` shows those there are", id)
}
