package redbeat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/imports"
	"github.com/echomind/sync/internal/cron"
)

func rowsOf(t *testing.T, dump string) ([]imports.Row, int) {
	t.Helper()
	rows, others, err := Read(strings.NewReader(dump), Options{Prefix: "redbeat:", Zone: "UTC"})
	require.NoError(t, err, dump)
	return rows, others
}

// of reads one definition.
func of(t *testing.T, definition string) imports.Row {
	t.Helper()
	rows, _ := rowsOf(t, `{"redbeat:it":{"definition":`+definition+`}}`)
	require.Len(t, rows, 1)
	return rows[0]
}

func scheduled(t *testing.T, schedule string) imports.Row {
	t.Helper()
	return of(t, `{"name":"it","task":"tasks.it","schedule":`+schedule+`}`)
}

const definitionText = `{"name": "it", "task": "tasks.add", "args": [16, "x"], "kwargs": {"k": 1e2}, "options": {"queue": "slow"},
	"schedule": {"__type__": "crontab", "minute": "*/15", "hour": "*", "day_of_week": "mon-fri", "day_of_month": "*", "month_of_year": "*"}, "enabled": false}`

const metaText = `{"last_run_at": {"__type__": "datetime", "year": 2026, "month": 2, "day": 6, "hour": 5, "minute": 4, "second": 3,
	"microsecond": 2, "timezone": "Europe/Berlin"}, "total_run_count": 7}`

func TestADumpIsReadHoweverItWasWritten(t *testing.T) {
	quoted := func(text string) string { b, _ := json.Marshal(text); return string(b) }
	hash := `{"definition":` + quoted(definitionText) + `,"meta":` + quoted(metaText) + `}`
	others := `"redbeat::schedule":{"redbeat:it":1738000000},"redbeat::statics":["it"],"redbeat::lock":"x","celery":["{}"]`
	for what, dump := range map[string]struct {
		text   string
		others int
	}{
		"an object from keys to hashes":  {`{"redbeat:it":` + hash + `,` + others + `}`, 4},
		"a list of databases":            {`[{"redbeat:it":` + hash + `},{` + others + `}]`, 4},
		"hashes that are texts":          {`{"redbeat:it":` + quoted(hash) + `}`, 0},
		"objects instead of texts":       {`{"redbeat:it":{"definition":` + definitionText + `,"meta":` + metaText + `}}`, 0},
		"redis-dump, a value on a line":  {`{"db":0,"key":"redbeat:it","ttl":-1,"type":"hash","value":` + hash + `,"size":9}` + "\n" + `{"db":0,"key":"celery","type":"list","value":[]}`, 1},
		"a list of entries with keys":    {`[{"key":"redbeat:it","definition":` + quoted(definitionText) + `,"meta":` + quoted(metaText) + `}]`, 0},
		"a list of lists":                {`[[{"redbeat:it":` + hash + `}]]`, 0},
		"nothing of anybody, then entry": {"{}\n[]\n" + `{"redbeat:it":` + hash + `}`, 0},
	} {
		rows, passedOver := rowsOf(t, dump.text)
		require.Len(t, rows, 1, what)
		row := rows[0]
		require.Empty(t, row.Refused, what)
		require.Equal(t, dump.others, passedOver, what)
		require.Equal(t, [4]string{"key redbeat:it", "it", "it", "*/15 * * * 1-5"}, [4]string{row.Where, row.Key, row.Name, *row.Cron}, what)
		require.JSONEq(t, `{"task":"tasks.add","args":[16,"x"],"kwargs":{"k":1e2},"options":{"queue":"slow"}}`, string(row.Config), what)
		require.True(t, row.Disabled, what)
		require.Equal(t, "2026-02-06T04:04:03.000002Z", row.LastRun.Format(time.RFC3339Nano), what)
	}
	rows, _ := rowsOf(t, `[`+definitionText+`]`) // without a key its name is the key
	require.Equal(t, "it", rows[0].Key)
	require.Nil(t, rows[0].LastRun)
}

func TestACeleryCrontabIsWrittenSoThatItAllowsTheSameTimes(t *testing.T) {
	for fields, want := range map[string]string{
		``:                                        "* * * * *",
		`"minute":"0","hour":"*/4"`:               "0 */4 * * *",
		`"minute":5,"hour":[8,9,10,17]`:           "5 8-10,17 * * *",
		`"minute":"0","hour":"22-4"`:              "0 0-4,22,23 * * *",
		`"minute":"0","hour":"22-4/2"`:            "0 0,2,4,22 * * *",
		`"minute":"0","hour":"8-18/2"`:            "0 8-18/2 * * *",
		`"minute":"1-59/2"`:                       "1-59/2 * * * *",
		`"minute":"0","day_of_week":"monday,SUN"`: "0 * * * 0,1",
		`"minute":"0","day_of_week":"fri-mon"`:    "0 * * * 0,1,5,6",
		`"minute":"0","day_of_month":"*/7"`:       "0 * */7 * *",
		`"minute":"0","month_of_year":"*/3"`:      "0 * * */3 *",
		`"minute":"0","hour":"0","day_of_week":1,"day_of_month":"1-7,15-21"`:  "0 0 * * 1#1,1#3",
		`"minute":"0","hour":"0","day_of_week":"1,5","day_of_month":"29-31"`:  "0 0 * * 1#5,5#5",
		`"minute":"0","hour":"0","day_of_week":"*","day_of_month":"1-31"`:     "0 0 * * *",
		`"minute":"0","hour":"0","day_of_week":"0-6","day_of_month":"1,2,10"`: "0 0 1,2,10 * *",
	} {
		row := scheduled(t, `{"__type__":"crontab"`+strings.TrimSuffix(","+fields, ",")+`}`)
		require.Empty(t, row.Refused, fields)
		require.Equal(t, want, *row.Cron, fields)
	}
}

// Of each field a value that Celery allows is one at which the expression has a slot, and no other is.
func TestEveryWrittenFieldMeansTheSameValues(t *testing.T) {
	for i, s := range celery {
		for seed := range uint64(60) {
			allowed := uint64(0)
			for v := s.min; v <= s.max; v++ {
				if (seed*2654435761+uint64(v)*40503*(seed%7+1))>>4%(seed%5+2) == 0 {
					allowed |= 1 << v
				}
			}
			if allowed == 0 {
				continue
			}
			text := [5]string{"0", "0", "*", "*", "*"}
			text[i] = s.write(allowed)
			schedule, err := cron.Parse(cron.Spec{Expression: strings.Join(text[:], " "), Zone: "UTC"})
			require.NoError(t, err)
			var found []int
			for at := time.Date(2025, 12, 31, 23, 59, 0, 0, time.UTC); ; {
				if at = schedule.Next(at); at.IsZero() || at.Year() > 2026 {
					break
				}
				if value := [5]int{at.Minute(), at.Hour(), at.Day(), int(at.Month()), int(at.Weekday())}[i]; !slices.Contains(found, value) {
					found = append(found, value)
				}
			}
			for v := s.min; v <= s.max; v++ {
				require.Equal(t, allowed>>v&1 == 1, slices.Contains(found, v), "%s %s: %d", s.name, text[i], v)
			}
		}
	}
}

func TestAnIntervalIsOfWholeMinutes(t *testing.T) {
	for schedule, minutes := range map[string]int32{
		`{"__type__":"interval","every":60}`: 1, `{"__type__":"interval","every":5400.0,"relative":false}`: 90, `86400`: 1440, `7200.0`: 120,
	} {
		row := scheduled(t, schedule)
		require.Empty(t, row.Refused)
		require.Equal(t, minutes, *row.Minutes)
		require.Nil(t, row.Cron)
	}
	for schedule, want := range map[string]string{
		`{"__type__":"interval","every":60,"relative":true}`: "* * * * *", `{"__type__":"interval","every":900,"relative":true}`: "*/15 * * * *",
		`{"__type__":"interval","every":3600,"relative":true}`: "0 * * * *", `{"__type__":"interval","every":21600,"relative":true}`: "0 */6 * * *",
		`{"__type__":"interval","every":86400,"relative":true}`: "0 0 * * *",
	} {
		row := scheduled(t, schedule)
		require.Empty(t, row.Refused)
		require.Equal(t, want, *row.Cron)
		require.NotEmpty(t, row.Notes)
	}
}

func TestWhatCannotBeTakenSaysWhy(t *testing.T) {
	for schedule, says := range map[string]string{
		`{"__type__":"solar","event":"sunset","lat":1,"lon":2}`:                 "solar",
		`{"__type__":"rrule","freq":5}`:                                         "rrule",
		`{"__type__":"clocked"}`:                                                "clocked",
		`{"__type__":"lunar"}`:                                                  `type "lunar"`,
		`{"every":60}`:                                                          "no __type__",
		`null`:                                                                  "no schedule",
		`"x"`:                                                                   "cannot be read",
		`{"__type__":"interval","every":30}`:                                    "every 30 s",
		`{"__type__":"interval","every":90.5}`:                                  "every 90.5 s",
		`{"__type__":"interval","every":-60}`:                                   "every -60 s",
		`{"__type__":"interval","every":1e300}`:                                 "every 1000",
		`{"__type__":"interval","every":1e999}`:                                 "no number of seconds",
		`{"__type__":"interval","every":"60"}`:                                  "no number of seconds",
		`{"__type__":"interval","every":420,"relative":true}`:                   "divide neither an hour nor a day",
		`{"__type__":"crontab","minute":"60"}`:                                  `its minute: "60"`,
		`{"__type__":"crontab","month_of_year":"[1-12]"}`:                       "its month_of_year",
		`{"__type__":"crontab","day_of_week":"someday"}`:                        "its day_of_week",
		`{"__type__":"crontab","minute":"5/10"}`:                                "a step and no range",
		`{"__type__":"crontab","minute":"*/0"}`:                                 "the step",
		`{"__type__":"crontab","minute":[]}`:                                    "never comes due",
		`{"__type__":"crontab","minute":["a"]}`:                                 "a list has numbers",
		`{"__type__":"crontab","minute":true}`:                                  "must be a text",
		`{"__type__":"crontab","minute":0,"day_of_month":30,"month_of_year":2}`: "never comes due",
		`{"__type__":"crontab","minute":0,"hour":0,"day_of_month":"1-8","day_of_week":1}`: "wants both",
	} {
		row := scheduled(t, schedule)
		require.Contains(t, row.Refused, says, schedule)
	}
	const hourly = `"schedule":{"__type__":"interval","every":3600}`
	for definition, says := range map[string]string{
		`{"name":"it",` + hourly + `}`:                                "no task",
		`{"task":"",` + hourly + `}`:                                  "no task",
		`{"task":"t","args":{},` + hourly + `}`:                       "args must be a list",
		`{"task":"t","kwargs":[1],` + hourly + `}`:                    "kwargs must be an object",
		`{"task":"t","args":["gASVBAAAAAAAAABLAS4="],` + hourly + `}`: "args[0] is a pickled function",
		`"{\"task\":\"t\",\"kwargs\":{\"x\":NaN}}"`:                   "cannot be read: it is not JSON",
		`"{} {}"`:                              "something follows",
		`"` + strings.Repeat("x", 70000) + `"`: "more than 65536 bytes",
	} {
		require.Contains(t, of(t, definition).Refused, says, definition[:min(80, len(definition))])
	}
	rows, _ := rowsOf(t, `{"redbeat:it":{"meta":"{}"},"redbeat:other":"x"}`)
	for _, row := range rows {
		require.Contains(t, row.Refused, "neither a definition nor a task")
	}
	require.Len(t, rows, 2)
}

func TestHalfAPairIsNoCharacter(t *testing.T) {
	for text, half := range map[string]bool{`"a"`: false, `"\ud83d\ude00"`: false, `"\\ud800"`: false, `"\u00e9\n"`: false, `"\ud800"`: true, `"\ude00"`: true,
		`"\ud83dx\ude00"`: true, `"\ud83d\ud83d\ude00"`: true, `"\ud83d\n"`: true, `"\uD800"`: true} {
		require.Equal(t, half, halfPair([]byte(text)), text)
	}
}

func TestWhenItRanLastIsBelievedWhereItCanBe(t *testing.T) {
	last := func(at string) *time.Time {
		rows, _ := rowsOf(t, `{"redbeat:it":{"definition":`+definitionText+`,"meta":{"last_run_at":`+at+`}}}`)
		require.Empty(t, rows[0].Refused)
		return rows[0].LastRun
	}
	const day = `{"year":2026,"month":1,"day":2,"hour":3`
	require.Equal(t, "2026-01-02T03:00:00Z", last(day+`}`).Format(time.RFC3339))
	require.Equal(t, "2026-01-02T01:00:00Z", last(day+`,"timezone":7200.0}`).Format(time.RFC3339))
	for _, none := range []string{`null`, day + `,"timezone":"Mars"}`, `{"year":1,"month":1,"day":2}`, `{"year":9999,"month":1,"day":1}`, `"x"`} {
		require.Nil(t, last(none), none)
	}
}

func TestADumpThatIsNoneOrTooLargeIsRefusedAsAWhole(t *testing.T) {
	for _, text := range []string{`{`, `{"redbeat:it":`, `[{}`, `hello`, `"x"`, `[[[{}]]]`, `{"a":NaN}`, "\x00"} {
		_, _, err := Read(strings.NewReader(text), Options{Prefix: "redbeat:", Zone: "UTC"})
		require.Error(t, err, text)
	}
	var many strings.Builder
	for i := range imports.MaxRows + 1 {
		fmt.Fprintf(&many, `{"redbeat:%d":{"definition":"{}"}}`, i)
	}
	for what, text := range map[string]string{"entries": many.String(), "bytes": `{"a":"` + strings.Repeat("x", imports.MaxBytes) + `"}`,
		"keys": `{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, maxKeys+1), ",") + `}`} {
		_, _, err := Read(strings.NewReader(text), Options{Prefix: "redbeat:", Zone: "UTC"})
		require.ErrorIs(t, err, imports.ErrTooLarge, what)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"redbeat:it":{"definition":` + definitionText + `,"meta":` + metaText + `}}`)
	f.Fuzz(func(t *testing.T, text string) {
		rows, _, err := Read(strings.NewReader(text), Options{Prefix: "redbeat:", Zone: "UTC"})
		if err != nil {
			return
		}
		for _, row := range rows {
			if row.Refused == "" && (row.Cron == nil && row.Minutes == nil || !json.Valid(row.Config) || row.Key == "") {
				t.Fatalf("%+v", row)
			}
		}
	})
}
