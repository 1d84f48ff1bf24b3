package page

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
)

// focused is what keys go to: where it leads to, or what it is of.
func (s *stage) focused() (at string, isShown bool) {
	s.Helper()
	found, err := chromedp.Run(s.browser, chromedp.Evaluate[struct {
		At      string
		IsShown bool
	}](`(() => { const e = document.activeElement, o = getComputedStyle(e), box = e.getBoundingClientRect();
		return {At: e.getAttribute("href") || e.form?.getAttribute("action") || e.tagName, IsShown: o.outlineStyle !== "none" && box.width > 0 && box.height > 0 && box.left >= 0} })()`))
	require.NoError(s, err)
	return found.At, found.IsShown
}

func TestASourceIsSyncedByKeysAlone(t *testing.T) {
	s := newStage(t)
	s.furnish()
	s.signIn(7, identity.User)
	s.visit("/")
	s.do(chromedp.KeyEvent(kb.Tab))
	at, isShown := s.focused()
	require.Equal(t, "#main", at, "what is skipped comes first")
	require.True(t, isShown)
	s.do(chromedp.KeyEvent(kb.Enter))
	for range 100 {
		s.do(chromedp.KeyEvent(kb.Tab))
		at, isShown = s.focused()
		require.True(t, isShown, "%s has keys, and nobody sees it", at)
		require.NotEqual(t, "/search", at, "what stands before the main part was skipped")
		if at == "/sources/2/sync" {
			break
		}
	}
	require.Equal(t, "/sources/2/sync", at)
	s.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS(".said")))
	require.Contains(t, s.text(".said"), "A sync was asked for.")
	s.nothingWrong()
}
