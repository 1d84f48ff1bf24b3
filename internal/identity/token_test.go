package identity

import (
	"fmt"
	"strings"
	"testing"
)

func TestATokenIsTakenApartAsItWasMade(t *testing.T) {
	for _, id := range []int32{1, 42, 2147483647} {
		secret := NewSecret()
		token := Token(id, secret)
		gotID, got, err := ParseToken(token)
		if err != nil || gotID != id || got != secret {
			t.Errorf("%d: %d, %v", id, gotID, err)
		}
	}
	if first, second := NewSecret(), NewSecret(); first == second {
		t.Error("two secrets are equal")
	}
}

func TestATokenThatWasChangedInOneCharacterIsNone(t *testing.T) {
	token := Token(7, NewSecret())
	for i := range token {
		for _, other := range []string{"0", "z", "_", "é"} {
			changed := token[:i] + other + token[i+1:]
			if changed == token {
				continue
			}
			if _, _, err := ParseToken(changed); err == nil {
				t.Errorf("%q is taken for a token, made of %q", changed, token)
			}
		}
	}
	for _, text := range []string{"", "ems_", token[:len(token)-1], token + "0", " " + token, strings.ToUpper(token), "ems_007" + token[5:]} {
		if _, _, err := ParseToken(text); err == nil {
			t.Errorf("%q is taken for a token", text)
		}
	}
}

func TestASecretIsNotPrinted(t *testing.T) {
	secret := NewSecret()
	if text := fmt.Sprint(secret); strings.Contains(text, string(secret)[:8]) {
		t.Error(text)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(Token(7, NewSecret()))
	f.Add("ems_1_")
	f.Fuzz(func(t *testing.T, text string) {
		id, secret, err := ParseToken(text)
		if err == nil && Token(id, secret) != text {
			t.Errorf("%q is read as another token", text)
		}
	})
}
