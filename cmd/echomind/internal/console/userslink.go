package console

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/postgres"
)

// identityView is what programs are shown of an issuer's subject. The user is null where the subject is nobody.
type identityView struct {
	Issuer  string     `json:"issuer"`
	Subject string     `json:"subject"`
	UserID  *int32     `json:"user_id"`
	MadeAt  *time.Time `json:"made_at"`
}

// called are the flags that name an issuer and its subject.
type called struct{ issuer, subject *string }

func withCalled(c *cobra.Command) called {
	return called{
		c.Flags().String("issuer", "", "OIDC_ISSUER, or header: and the name of a proxy's header in small letters"),
		c.Flags().String("subject", "", "what the issuer calls the person: the claim sub, or the header's value"),
	}
}

func (f called) check() error {
	if *f.issuer == "" || *f.subject == "" {
		return usagef("give --issuer and --subject; GET /api/v1/me, asked as that person, says both")
	}
	return nil
}

func usersLink(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "link USER", Short: "Say which user somebody is whom an issuer signs in",
		Long: `Say which user somebody is whom an OpenID Connect issuer calls by a subject, or a proxy by a header. Who was somebody else is that no more. A user
who was removed may sign in so again, with the role and the groups that are set anew.`,
		Example: "  echomind users link 7 --issuer https://id.example/realms/main --subject 5c0e7d1a\n" +
			"  echomind users link 7 --issuer header:x-authentik-uid --subject 5c0e7d1a",
		Args: oneUser,
	}
	who, out := withCalled(c), withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		user, err := userNumber(args[0])
		if err != nil {
			return err
		}
		if err := who.check(); err != nil {
			return err
		}
		linked := identityView{Issuer: *who.issuer, Subject: *who.subject, UserID: &user}
		linked, err = either(c.Context(), f, func(pool *pgxpool.Pool) (identityView, error) {
			err := deadline.Do(c.Context(), "console.link_user", queryTimeout, func(ctx context.Context) error {
				return postgres.Tx(ctx, pool, func(tx pgx.Tx) error {
					return dbgen.New(tx).LinkIdentity(ctx, dbgen.LinkIdentityParams{Issuer: *who.issuer, Subject: *who.subject, UserID: user})
				})
			})
			if err != nil {
				return linked, told(fmt.Sprintf("link user %d", user), err)
			}
			return linked, nil
		}, func(r *remote) (identityView, error) { return linked, r.linkUser(c.Context(), linked) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), linked, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s of %s is user %d\n", clip(linked.Subject, 100), clip(linked.Issuer, 200), user)
			return err
		})
	}
	return c
}

func usersUnlink(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "unlink", Short: "Say that somebody whom an issuer signs in is no user any more",
		Long:    "Say that a subject of an issuer is no user any more. It is made none again at its next sign-in. The user, their tokens and their connectors stay.",
		Example: "  echomind users unlink --issuer https://id.example/realms/main --subject 5c0e7d1a", Args: cobra.NoArgs,
	}
	who, out := withCalled(c), withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := who.check(); err != nil {
			return err
		}
		gone := identityView{Issuer: *who.issuer, Subject: *who.subject}
		known, err := either(c.Context(), f, func(pool *pgxpool.Pool) (bool, error) {
			var found int64
			err := deadline.Do(c.Context(), "console.unlink_user", queryTimeout, func(ctx context.Context) error {
				return postgres.Tx(ctx, pool, func(tx pgx.Tx) (err error) {
					found, err = dbgen.New(tx).UnlinkIdentity(ctx, dbgen.UnlinkIdentityParams{Issuer: *who.issuer, Subject: *who.subject})
					return err
				})
			})
			if err != nil {
				return false, told("unlink a user", err)
			}
			return found > 0, nil
		}, func(r *remote) (bool, error) { return r.unlinkUser(c.Context(), gone) })
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("nobody is known by this issuer and subject; `echomind users links` lists who is")
		}
		return out.show(c.OutOrStdout(), gone, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s of %s is no user any more\n", clip(gone.Subject, 100), clip(gone.Issuer, 200))
			return err
		})
	}
	return c
}

func usersLinks(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "links", Short: "List whom issuers sign in, and as which users", Long: "List the subjects of issuers that are, or were, users. made_at is when a user was made at first sight.",
		Example: "  echomind users links --user 7", Args: cobra.NoArgs,
	}
	user := c.Flags().Int32("user", 0, "of this user alone")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		p := dbgen.ListIdentitiesParams{Page: maxUsers}
		if *user != 0 {
			p.UserID = user
		}
		views, err := either(c.Context(), f, func(pool *pgxpool.Pool) ([]identityView, error) {
			found, err := ask(c.Context(), pool, "identities", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.Identity, error) { return q.ListIdentities(ctx, p) })
			if err != nil {
				return nil, fmt.Errorf("list whom issuers sign in: %w", err)
			}
			views := make([]identityView, len(found))
			for i, one := range found {
				views[i] = identityView{one.Issuer, one.Subject, one.UserID, utc(one.MadeAt)}
			}
			return views, nil
		}, func(r *remote) ([]identityView, error) { return r.links(c.Context(), p.UserID) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), views, func(w io.Writer) error { return printIdentities(w, views) })
	}
	return c
}

func printIdentities(w io.Writer, found []identityView) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no issuer signs anybody in; `echomind users link --help` says how")
		return err
	}
	rows := make([][]string, len(found))
	for i, one := range found {
		user := ""
		if one.UserID != nil {
			user = strconv.Itoa(int(*one.UserID))
		}
		rows[i] = []string{orDash(&user), one.Issuer, one.Subject}
	}
	return table(w, []string{"USER", "ISSUER", "SUBJECT"}, rows)
}
