package masks_test

import (
	"testing"

	"github.com/echomind/sync/internal/masks"
)

func TestAnEntryOfTheAuditKeepsItsFingerprintsAndShowsNothingThatAnAnswerHides(t *testing.T) {
	for stored, want := range map[string]string{
		`{"password":"secret:0123456789ab"}`:                            `{"password":"secret:0123456789ab"}`,
		`{"url":"https://secret:0123456789ab@h/a?secret:0123456789ab"}`: `{"url":"https://secret:0123456789ab@h/a?secret:0123456789ab"}`,
		`"secret:0123456789ab, 3000 bytes"`:                             `"secret:0123456789ab, 3000 bytes"`,
		`{"l":["auth=X","jwt=X"],"n":1,"deep":{"no":null}}`:             `{"deep":{"no":null},"l":["auth=REDACTED","jwt=REDACTED"],"n":1}`,
		`"https%3A%2F%2Fu%3AX%40h"`:                                     `"https%3AREDACTED%40h"`,
		`{"version":1796078666160000001,"a":9007199254740991,"b":-9007199254740992,"c":18446744073709551616,"d":0.12345678901234567890}`: `{"a":9007199254740991,"b":"-9007199254740992","c":"18446744073709551616","d":0.12345678901234567890,"version":"1796078666160000001"}`,
		`null`: `null`,
	} {
		if got := string(masks.Audited([]byte(stored))); got != want {
			t.Errorf("%s is shown as %s, want %s", stored, got, want)
		}
	}
}
