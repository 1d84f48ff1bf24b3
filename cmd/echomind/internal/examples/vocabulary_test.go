package examples

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAWeekOfAVocabulary(t *testing.T) {
	monday := time.Date(2026, 2, 2, 0, 0, 0, 0, time.UTC)
	s := simulate(t, "vocabulary", monday.Add(-30*time.Minute), 3)
	s.exec(`UPDATE vocabulary.categories SET llm_generated = true WHERE name = 'places'`)
	for hour := range 7 * 24 {
		now := monday.Add(time.Duration(hour) * time.Hour)
		switch now.Format("Mon 15:04") {
		case "Wed 20:00":
			s.exec(`INSERT INTO vocabulary.categories VALUES ('ships', true), ('winds', true)`)
		case "Tue 09:00":
			s.exec(`INSERT INTO vocabulary.changes SELECT FROM generate_series(1, 19)`)
		case "Tue 15:00":
			s.exec(`INSERT INTO vocabulary.changes DEFAULT VALUES`)
		case "Sat 04:00":
			s.exec(`INSERT INTO vocabulary.changes SELECT FROM generate_series(1, 50)`)
		}
		if now.Hour()%12 == 6 { // six hours before each check of the consolidation
			s.exec(`INSERT INTO vocabulary.types (active) SELECT false FROM generate_series(1, 3)`)
		}
		s.at(now)
		s.rests()
	}
	assert.Equal(t, `Mon 00:00 {"refreshed": 1}
Thu 00:00 {"refreshed": 2}`, s.completed("category_refresh"))
	// Two runs, and a line for each day of checks that come to nothing.
	assert.Equal(t, "28 slots, 9 lines", s.slots("category_refresh"))
	// It begins above 20 %, goes on until 10 %, and rests while it is between them.
	assert.Equal(t, `Tue 00:00 {"goes_on": true, "removed": 8}
Tue 12:00 {"goes_on": false, "removed": 8}
Fri 00:00 {"goes_on": true, "removed": 8}
Fri 12:00 {"goes_on": true, "removed": 8}
Sat 00:00 {"goes_on": false, "removed": 8}`, s.completed("vocab_consolidation"))
	assert.Equal(t, `Tue 15:00 {"measured": 20}
Sat 04:00 {"measured": 50}`, s.completed("epistemic_remeasurement"))
	assert.Regexp(t, "^168 slots, ", s.slots("epistemic_remeasurement"))
	s.stop()
}
