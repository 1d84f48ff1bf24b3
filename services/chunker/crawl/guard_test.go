package crawl_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/sdk/worker"
)

func TestASiteThatIsSuddenlyNearlyEmptyDeletesNothingUntilThatIsAllowed(t *testing.T) {
	for name, away := range map[string]func(*site){
		"we are back soon": func(s *site) { s.page("/", "we are back soon") },
		"all redirected to one page": func(s *site) {
			s.on("*", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/maintenance", http.StatusFound) })
			s.page("/maintenance", "maintenance")
		},
		"404 for each page": func(s *site) {
			for i := range 30 {
				s.status(fmt.Sprint("/", i), http.StatusNotFound)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, st := newSite(t), newStore()
			var hrefs []string
			for i := range 30 {
				hrefs = append(hrefs, fmt.Sprint("/", i))
				s.page(hrefs[i], fmt.Sprint("page ", i))
			}
			s.page("/", "home", hrefs...)
			crawlOK(t, s, st)
			if name == "all redirected to one page" {
				for _, href := range append(hrefs, "/") {
					s.remove(href)
				}
			}
			away(s)
			_, err := crawlSite(t, s, st)
			require.ErrorContains(t, err, "--allow-deletions")
			require.NotErrorIs(t, err, worker.ErrPermanent)
			require.Empty(t, st.deleted)
			st.allows = true
			require.GreaterOrEqual(t, crawlOK(t, s, st).Deleted, 30)
		})
	}
}
