package client_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/echomind/sync/sdk/client"
)

// answers are pages of a list, by their tokens; the first has none.
type answers map[string]struct {
	page []int
	next string
}

var errAway = errors.New("away")

func (a answers) walk(most int) (found []int, asked int, err error) {
	for one, err := range client.Pages(func(token *string) ([]int, *string, error) {
		asked++
		at := ""
		if token != nil {
			at = *token
		}
		answer, is := a[at]
		if !is {
			return nil, nil, errAway
		}
		if answer.next == "" {
			return answer.page, nil, nil
		}
		return answer.page, &answer.next, nil
	}) {
		if err != nil {
			return found, asked, err
		}
		if found = append(found, one); len(found) == most {
			break
		}
	}
	return found, asked, nil
}

func TestPagesAreWalkedToTheEndAndNoFurtherThanNeeded(t *testing.T) {
	t.Parallel()
	all := answers{"": {[]int{1, 2}, "a"}, "a": {nil, "b"}, "b": {[]int{3}, ""}}
	for most, want := range map[int]struct {
		found []int
		asked int
	}{99: {[]int{1, 2, 3}, 3}, 2: {[]int{1, 2}, 1}} {
		if found, asked, err := all.walk(most); err != nil || asked != want.asked || !slices.Equal(found, want.found) {
			t.Errorf("most %d: found %v in %d pages, %v; want %v in %d", most, found, asked, err, want.found, want.asked)
		}
	}
}

func TestAnErrorEndsTheWalk(t *testing.T) {
	t.Parallel()
	if found, _, err := (answers{"": {[]int{1}, "gone"}}).walk(99); !errors.Is(err, errAway) || len(found) != 1 {
		t.Errorf("found %v, %v", found, err)
	}
	if _, asked, err := (answers{"": {nil, "a"}, "a": {nil, "b"}, "b": {nil, "a"}}).walk(99); !errors.Is(err, client.ErrPages) || asked != 3 {
		t.Errorf("%d, %v", asked, err)
	}
	if _, asked, err := (answers{"": {nil, "a"}, "a": {nil, "a"}}).walk(99); !errors.Is(err, client.ErrPages) || asked != 2 {
		t.Errorf("a list that goes in a circle: %d pages, %v", asked, err)
	}
}
