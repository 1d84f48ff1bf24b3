package db_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/echomind/sync/internal/identity"
)

// token adds one of a user's by plain SQL, as an operator does.
func (b *base) token(user int32, role identity.Role, until string) int32 {
	b.Helper()
	return one[int32](b, `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by, expires_at)
		VALUES ($1, $2, '{read,write}', sha256('s'), 'x', $3::timestamptz) RETURNING id`, user, string(role), until)
}

// makes makes a token with another one, as services/api does, and returns the name of the constraint where it is refused.
func (b *base) makes(with, owner int32, role identity.Role, until string) (id int32, refused string) {
	b.Helper()
	who := identity.Who{UserID: owner, TokenID: with, Role: role, Scopes: []identity.Scope{identity.Read, identity.Write}}
	b.exec(`BEGIN`)
	b.exec(`SELECT set_config('echomind.request', $1, true)`, identity.Request{Who: who}.Setting())
	err := b.conn.QueryRow(b.Context(), `SELECT api.create_token($1, '', $2, '{read,write}', sha256('s'), $3::timestamptz)`, owner, string(role), until).Scan(&id)
	if err != nil {
		b.exec(`ROLLBACK`)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.ConstraintName == "" {
			b.Fatal(err)
		}
		return 0, pg.ConstraintName
	}
	b.exec(`COMMIT`)
	return id, ""
}

// made is makes of what must succeed.
func (b *base) made(with, owner int32, role identity.Role, until string) int32 {
	b.Helper()
	id, refused := b.makes(with, owner, role, until)
	if refused != "" {
		b.Fatalf("token %d makes none: %s", with, refused)
	}
	return id
}

// counts is the role that a token counts as, or nothing.
func (b *base) counts(token int32) string {
	b.Helper()
	return one[string](b, `SELECT coalesce((SELECT a.role FROM api.authenticate($1, sha256('s')) a), '')`, token)
}

const never = "9998-01-01"

// However deep it was made, and where one between has been removed.
func TestATokenCountsWhileThoseCountThatItWasMadeThrough(t *testing.T) {
	b := newBase(t)
	chain := []int32{b.token(7, identity.User, "2100-01-01")}
	other := b.token(7, identity.User, never)
	for range 4 {
		chain = append(chain, b.made(chain[len(chain)-1], 7, identity.User, never))
	}
	if later := one[int](b, `SELECT count(*) FROM access_tokens WHERE made_through <> '{}' AND expires_at IS DISTINCT FROM '2100-01-01'::timestamptz`); later != 0 {
		t.Errorf("%d end later than what they were made with", later)
	}
	are := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, id := range append(slices.Clone(chain), other) {
			got = append(got, b.counts(id))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	are("all", "user", "user", "user", "user", "user", "user")
	b.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE id = $1`, chain[3])
	are("one revoked", "user", "user", "user", "", "", "user")
	b.exec(`UPDATE access_tokens SET expires_at = clock_timestamp() WHERE id = $1`, chain[2])
	are("one expired", "user", "user", "", "", "", "user")
	b.exec(`DELETE FROM access_tokens WHERE id = $1`, chain[1])
	are("one removed", "user", "", "", "", "", "user")
	b.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE id = $1`, chain[0])
	are("the first revoked", "", "", "", "", "", "user")
	b.serves(identity.Who{UserID: 7, Role: identity.User}, func(tx pgx.Tx) {
		var left string
		if err := tx.QueryRow(t.Context(), `SELECT coalesce(string_agg(id::text, ' '), '') FROM api.tokens WHERE revoked_at IS NULL`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left != fmt.Sprint(other) {
			t.Errorf("%s are shown as not revoked", left)
		}
	})
}

// Revoking changes one row, whatever was made with the token.
func TestATokenWithThousandsOfOthersIsRevokedByOneRow(t *testing.T) {
	b := newBase(t)
	root := b.token(7, identity.User, never)
	b.exec(`INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by, created_at, expires_at, made_through)
		SELECT 7, 'user', '{read}', sha256('s'), 'x', clock_timestamp() - interval '2 days', clock_timestamp(), ARRAY[$1::integer] FROM generate_series(1, 5000)`, root)
	child := b.made(root, 7, identity.User, never)
	before := one[int](b, `SELECT count(*) FROM audit`)
	b.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE id = $1`, root)
	if b.counts(root) != "" || b.counts(child) != "" {
		t.Error("it counts, or what was made with it")
	}
	if entries := one[int](b, `SELECT count(*) FROM audit`) - before; entries != 1 {
		t.Errorf("%d entries, want 1", entries)
	}
	if revoked := one[int](b, `SELECT count(*) FROM access_tokens WHERE revoked_at IS NOT NULL`); revoked != 1 {
		t.Errorf("%d rows are changed", revoked)
	}
}

// A superadmin who is none any more has none by a token of another number.
func TestATokenMayNoMoreThanThoseWhoseTokensItWasMadeWith(t *testing.T) {
	b := newBase(t)
	first := b.token(1, identity.Superadmin, never)
	second := b.made(first, 12345, identity.Superadmin, never)
	third := b.made(second, 999, identity.Superadmin, never)
	plain := b.made(first, 8, identity.User, never)
	is := func(want string) {
		t.Helper()
		if got := strings.Join([]string{b.counts(second), b.counts(third), b.counts(plain)}, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	is("superadmin superadmin user")
	b.exec(`INSERT INTO users VALUES (12345, 'admin')`)
	is("admin  user") // 999's was made through one that may not do that any more
	b.exec(`INSERT INTO users VALUES (1, 'user')`)
	is("  ")
	b.exec(`UPDATE users SET role = 'superadmin'`)
	is("superadmin superadmin user")
	b.exec(`DELETE FROM users WHERE user_id = 1`)
	is("  ")
}

func TestTokensAreMadeInBounds(t *testing.T) {
	b := newBase(t)
	refused := func(with, owner int32, want string) {
		t.Helper()
		if _, got := b.makes(with, owner, identity.User, never); got != want {
			t.Errorf("refused by %q, want %q", got, want)
		}
	}
	deep := b.token(7, identity.User, never)
	for range 8 {
		deep = b.made(deep, 7, identity.User, never)
	}
	refused(deep, 7, "access_tokens_made_depth")
	b.exec(`DELETE FROM access_tokens`)

	root, mine := b.token(7, identity.User, never), b.token(7, identity.User, never)
	for range 98 {
		b.made(root, 7, identity.User, never)
	}
	refused(mine, 7, "access_tokens_most")
	b.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() WHERE id = $1`, root)
	b.made(mine, 7, identity.User, never) // the 98 are over with it
	if left := one[int](b, `SELECT count(*) FROM access_tokens WHERE revoked_at IS NULL`); left != 2 {
		t.Errorf("%d tokens are left", left)
	}

	b.exec(`INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by, expires_at)
		SELECT 7, 'user', '{read}', sha256('s'), 'x', clock_timestamp() FROM generate_series(1, 1000)`)
	refused(mine, 7, "access_tokens_daily")
	b.exec(`UPDATE access_tokens SET created_at = created_at - interval '1 day'`)
	b.made(mine, 7, identity.User, never)
}

// Those that are over with one that is over for long go with it, a batch at a time.
func TestTokensThatAreOverForLongGoWithThoseThatWereMadeThroughThem(t *testing.T) {
	b := newBase(t)
	root := b.token(7, identity.User, never)
	for range 10 {
		b.made(b.made(root, 7, identity.User, never), 7, identity.User, never)
	}
	kept := b.made(b.token(7, identity.User, never), 7, identity.User, never)
	b.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() - interval '31 days' WHERE id = $1`, root)
	for removed := 1; removed > 0; {
		if removed = one[int](b, `SELECT moves.keep_audit('30 days', 4)`); removed > 8 { // four of each
			t.Errorf("%d in one batch", removed)
		}
	}
	if left := one[string](b, `SELECT string_agg(id::text, ' ' ORDER BY id) FROM access_tokens`); left != fmt.Sprint(kept-1, kept) {
		t.Errorf("%s are left, want %d and %d", left, kept-1, kept)
	}
}

// Others go, and it goes when it is free.
func TestATokenThatSomebodyHoldsKeepsNothingElseFromGoing(t *testing.T) {
	b := newBase(t)
	root, other := b.token(7, identity.User, never), b.token(7, identity.User, never)
	held := b.made(root, 7, identity.User, never)
	b.made(root, 7, identity.User, never)
	b.exec(`UPDATE access_tokens SET revoked_at = clock_timestamp() - interval '31 days' WHERE id = ANY ($1)`, []int32{root, other})
	holder := connectTo(t, b.url)
	for _, step := range []struct {
		holds int32
		left  string
	}{{held, fmt.Sprint(root, held)}, {root, fmt.Sprint(root, held)}, {0, ""}} {
		holder.exec(`BEGIN`)
		holder.exec(`SELECT FROM access_tokens WHERE id = $1 FOR UPDATE`, step.holds)
		b.exec(`SELECT moves.keep_audit('30 days', 4)`)
		if left := one[string](b, `SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM access_tokens`); left != step.left {
			t.Errorf("while %d is held: %q are left, want %q", step.holds, left, step.left)
		}
		holder.exec(`COMMIT`)
	}
}

// An entry of a group says whose membership it was.
func TestTheAuditSaysWhoWasMadeToLeadAGroup(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO group_members VALUES (4711, 'grp', false), (8, 'grp', false)`)
	b.exec(`UPDATE group_members SET leads = true WHERE user_id = 4711`)
	if got := one[string](b, `SELECT concat_ws(' ', action, object_id, before, after) FROM audit ORDER BY id DESC LIMIT 1`); got != `groups.update grp/4711 {"leads": false} {"leads": true}` {
		t.Error(got)
	}
}

// However many tokens there are.
func TestKeepAuditReadsWhatItRemoves(t *testing.T) {
	b := newBase(t)
	b.exec(`SET session_replication_role = 'replica'`) // their triggers are not what is looked at
	b.exec(`INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by, made_through)
		SELECT 10 + n / 10, 'user', '{read}', sha256('s'), 'x', CASE WHEN n % 10 = 1 THEN '{}' ELSE ARRAY[n - n % 10 + 1] END FROM generate_series(1, 50000) n`)
	b.exec(`UPDATE access_tokens SET expires_at = clock_timestamp() - interval '40 days' WHERE id IN (25001, 25002)`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE access_tokens`)
	for _, left := range []int{49_990, 49_990} {
		plan := one[string](b, `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT moves.keep_audit('30 days', 2000)`)
		_, hit, _ := strings.Cut(plan, `"Shared Hit Blocks": `)
		_, read, _ := strings.Cut(plan, `"Shared Read Blocks": `)
		if n := leading(hit) + leading(read); n > 2000 {
			t.Errorf("%d buffers", n)
		} else {
			t.Logf("%d buffers", n)
		}
		if n := one[int](b, `SELECT count(*) FROM access_tokens`); n != left {
			t.Errorf("%d tokens are left, want %d", n, left)
		}
	}
}

// However many keys of requests and links there are that still count.
func TestKeepAuditReadsNoKeysOfRequestsAndLinksThatStillCount(t *testing.T) {
	b := newBase(t)
	b.exec(`INSERT INTO request_keys (user_id, key, at, asked) SELECT 1 + n % 1000, 'k' || n, clock_timestamp() - interval '20 hours' + n * interval '1 ms', '' FROM generate_series(1, 50000) n`)
	b.exec(`UPDATE request_keys SET at = clock_timestamp() - interval '25 hours' WHERE key IN ('k1', 'k2')`)
	b.exec(`SET session_replication_role = 'replica'`) // their tokens are not what is looked at
	b.exec(`INSERT INTO sign_in_links (code_sha256, token_id, expires_at) SELECT sha256(n::text::bytea), n, clock_timestamp() + interval '1 minute' + n * interval '1 ms' FROM generate_series(1, 50000) n`)
	b.exec(`SET session_replication_role = 'origin'`)
	b.exec(`VACUUM ANALYZE request_keys, sign_in_links`)
	b.exec(`SELECT moves.keep_audit('30 days', 2000)`)
	plan := one[string](b, `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) SELECT moves.keep_audit('30 days', 2000)`)
	_, hit, _ := strings.Cut(plan, `"Shared Hit Blocks": `)
	_, read, _ := strings.Cut(plan, `"Shared Read Blocks": `)
	if n := leading(hit) + leading(read); n > 400 {
		t.Errorf("%d buffers", n)
	} else {
		t.Logf("%d buffers", n)
	}
	if n := one[int](b, `SELECT count(*) FROM request_keys`); n != 49_998 {
		t.Errorf("%d keys are left, want 49,998", n)
	}
}

// A token may what each of the tokens through which it was made, and each of their owners, may; it is none where one of them is none, or was made for somebody else by less than
// a superadmin.
func TestWhatATokenIsNowIsWhatAllOfItsLinksAre(t *testing.T) {
	b := newBase(t)
	const users, tokens = 6, 400
	random := rand.New(rand.NewPCG(49, 0))
	roles := []identity.Role{identity.User, identity.Admin, identity.Superadmin}
	kept := map[int]int{} // users have a role of their own, or none
	b.exec(`SET session_replication_role = 'replica'`)
	for user := 1; user < users; user++ {
		kept[user] = random.IntN(3)
		b.exec(`INSERT INTO users (user_id, role) VALUES ($1, $2)`, user, roles[kept[user]])
	}
	type token struct {
		owner, role int
		isOver      bool
		through     []int
	}
	all := []token{{}} // by their numbers
	for id := 1; id <= tokens; id++ {
		made := token{owner: 1 + random.IntN(users), role: max(random.IntN(3), random.IntN(3))}
		if parent := random.IntN(id); random.IntN(4) > 0 && len(all[parent].through) < 8 {
			if through := all[parent].through; parent > 0 {
				made.through = append(slices.Clone(through), parent)
			}
			if random.IntN(3) > 0 && parent > 0 {
				made.owner = all[parent].owner
			}
		}
		over := []string{"infinity", "infinity", "infinity"}
		if made.isOver = random.IntN(20) == 0; made.isOver {
			over[random.IntN(2)] = "2020-01-01"
		}
		b.exec(`INSERT INTO access_tokens (id, user_id, role, scopes, secret_sha256, created_by, made_through, expires_at, revoked_at) OVERRIDING SYSTEM VALUE
			VALUES ($1, $2, $3, '{read}', sha256('s'), 'x', $4, nullif($5::timestamptz, 'infinity'), nullif($6::timestamptz, 'infinity'))`,
			id, made.owner, roles[made.role], append([]int{}, made.through...), over[0], over[1])
		all = append(all, made)
	}
	b.exec(`SET session_replication_role = 'origin'`)
	counted := map[string]int{}
	for id := 1; id <= tokens; id++ {
		lowest, want, before := 2, "", 0
		for i, link := range append(slices.Clone(all[id].through), id) {
			of := all[link]
			if of.isOver || i > 0 && of.owner != before && lowest < 2 {
				lowest = -1
				break
			}
			if lowest, before = min(lowest, of.role), of.owner; of.owner < users {
				lowest = min(lowest, kept[of.owner])
			}
		}
		if lowest >= 0 {
			want = string(roles[lowest])
		}
		if got := one[string](b, `SELECT coalesce(api.role_now($1), '')`, id); got != want {
			t.Errorf("token %d, made through %v, is now %q, want %q", id, all[id].through, got, want)
		}
		counted[want]++
	}
	if len(counted) != 4 || counted[""] > tokens/2 {
		t.Errorf("of each there are %v", counted)
	}
}
