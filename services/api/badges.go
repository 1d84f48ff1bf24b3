package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/freshness"
	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/services/api/internal/dbgen"
	"github.com/echomind/sync/services/api/internal/problem"
)

func (a *API) badgeRoutes() {
	register(a, identity.MakeBadge, http.MethodPost, "/connectors/{id}/badge",
		"Make the link of a connector's badge, which shows to everybody who has it how fresh the connector is; it is shown this once, and ends the one before", http.StatusCreated, a.makeBadge)
	register(a, identity.RevokeBadge, http.MethodPost, "/connectors/{id}/badge/revoke", "End the link of a connector's badge", http.StatusOK, a.revokeBadge)
}

// OneBadge is a link that was made.
type OneBadge struct {
	Body struct {
		ConnectorID int32  `json:"connector_id"`
		Path        string `json:"path,omitempty" doc:"Where the badge is, an SVG, below this API's address. Left out for a request that is repeated."`
	}
}

func (a *API) makeBadge(ctx context.Context, in *OnceByID) (*OneBadge, error) {
	out, secret := &OneBadge{}, rand.Text()
	sum := sha256.Sum256([]byte(secret))
	err := a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if _, err := locked(ctx, q, in.number()); err != nil {
			return "", err
		}
		if _, err := q.MakeBadge(ctx, dbgen.MakeBadgeParams{ID: in.number(), Sha256: sum[:]}); err != nil {
			return "", err
		}
		out.Body.Path = "/badge/" + secret + ".svg"
		return "", nil
	}, func(context.Context, *dbgen.Queries, string) error { return nil })
	out.Body.ConnectorID = in.number()
	return out, err
}

// BadgeEnded is a link that is over.
type BadgeEnded struct {
	Body struct {
		ConnectorID int32 `json:"connector_id"`
	}
}

func (a *API) revokeBadge(ctx context.Context, in *OnceByID) (*BadgeEnded, error) {
	out := &BadgeEnded{}
	out.Body.ConnectorID = in.number()
	err := a.once(ctx, func(ctx context.Context, q *dbgen.Queries) (string, error) {
		if _, err := locked(ctx, q, in.number()); err != nil {
			return "", err
		}
		_, err := q.RevokeBadge(ctx, in.number()) // that there is none is no error
		return "", err
	}, func(context.Context, *dbgen.Queries, string) error { return nil })
	return out, err
}

// badgeAge is how long a browser shows a badge without asking again, or that there is none: a badge that is made has a link that nobody has asked for.
const badgeAge = time.Minute

// badge answers everybody who has the link of one.
func (a *API) badge(w http.ResponseWriter, r *http.Request) {
	image, err := a.badgeAt(r)
	if err != nil {
		a.refuse(w, r, a.failed(r.Context(), err))
		return
	}
	w.Header().Set("Cache-Control", fmt.Sprintf("max-age=%d", badgeAge/time.Second))
	if image == nil {
		a.refuse(w, r, problem.NotFound("badge"))
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write(image)
}

// badgeAt is the image at a link; nil: there is none.
func (a *API) badgeAt(r *http.Request) ([]byte, error) {
	secret, isSVG := strings.CutSuffix(r.PathValue("file"), ".svg")
	if !isSVG || len(secret) != len(rand.Text()) {
		return nil, nil
	}
	link := sha256.Sum256([]byte(secret))
	return a.badges.of(r.Context(), link, r.RemoteAddr, time.Now(), func(ctx context.Context) ([]byte, error) {
		of, err := deadline.Get(ctx, "api.badge", queryTimeout, func(ctx context.Context) (dbgen.BadgeRow, error) {
			return dbgen.New(a.pool).Badge(ctx, link[:])
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var image bytes.Buffer
		err = badgeImage.Execute(&image, drawn(of))
		return image.Bytes(), err
	})
}

// drawnBadge is what is drawn: lengths in units of the image.
type drawnBadge struct {
	Color, Icon, Text string
	Right, Width      int
}

func drawn(of dbgen.BadgeRow) drawnBadge {
	now := *of.Now
	f := freshness.Of(freshness.Connector{
		FreshWithinMinutes: of.FreshWithinMinutes, LastSyncAt: of.LastSyncAt, SyncedVersion: of.SyncedVersion, ConfigVersion: *of.ConfigVersion,
	}, now)
	b := drawnBadge{Color: "#57606a", Icon: "?", Text: "never"}
	if of.LastSyncAt != nil {
		b.Text = clock.Ago(*of.LastSyncAt, now)
	}
	switch f.State {
	case freshness.Fresh:
		b.Color, b.Icon = "#1a7f37", "✓"
	case freshness.Late:
		b.Color, b.Icon, b.Text = "#b35900", "!", "late: "+b.Text
	}
	b.Right = 6*len([]rune(b.Text)) + 32
	b.Width = b.Right + 56
	return b
}

// badgeImage has room for letters of 6 units, which its font has in the middle.
var badgeImage = template.Must(template.New("badge").Parse(`<svg xmlns="http://www.w3.org/2000/svg" width="{{.Width}}" height="20" role="img" aria-label="synced: {{.Text}}">` +
	`<title>synced: {{.Text}}</title><rect width="{{.Width}}" height="20" rx="3" fill="#24292f"/><rect x="56" width="{{.Right}}" height="20" rx="3" fill="{{.Color}}"/>` +
	`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"><text x="8" y="14">synced</text><text x="64" y="14">{{.Icon}} {{.Text}}</text></g></svg>` + "\n"))
