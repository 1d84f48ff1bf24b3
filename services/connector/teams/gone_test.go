package teams_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The thread of a file that comes back does not change.
func TestAnAttachedFileThatComesBackIsStoredAgain(t *testing.T) {
	for _, n := range []int{1, 250} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			var files []string
			for i := range n {
				files = append(files, w.fake.File(w.folder, fmt.Sprintf("%03d.txt", i), fmt.Sprint("words ", i)))
				w.say("", "Ann", fmt.Sprint("word", i), files[i])
			}
			w.sync()
			w.fake.Pass(60 * 24 * time.Hour)
			for range 2 {
				for _, id := range files {
					w.fake.Revoke(id, true)
				}
				require.Equal(t, n, w.sync().Deleted)
				w.sync()
				for _, id := range files {
					w.fake.Revoke(id, false)
				}
				require.Equal(t, n, w.sync().Put)
			}
			w.fake.Requests()
			w.sync()
			require.Len(t, w.fake.Requests(), 2, "nothing is looked for any more")
		})
	}
}

func TestAFileThatIsGoneForGoodCostsNothing(t *testing.T) {
	w := newWorld(t)
	file := w.fake.File(w.folder, "plan.txt", "the plan")
	w.say("", "Ann", "look", file)
	w.sync()
	w.fake.Pass(60 * 24 * time.Hour)
	w.fake.Delete(file)
	w.sync()
	for n := range 3 {
		w.fake.File(w.folder, fmt.Sprintf("new%d.txt", n), "new")
		w.fake.Requests()
		w.sync()
		require.Len(t, w.fake.Requests(), 2)
	}
}
