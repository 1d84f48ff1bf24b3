// Package strictjson finds the problems of a configuration that a person wrote.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Check decodes a JSON object into a C and returns every problem with its field, its value and the fix: fields that C does not
// have, values of another kind, and the errors of C's Validate. Fields tagged `secret:"true"` may have any value: they may be
// sealed already.
func Check[C interface{ Validate() error }](object []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(object, &given); err != nil {
		return fmt.Errorf("it is no JSON object: %w", err)
	}
	var c C
	known := fieldsOf(reflect.TypeFor[C]())
	var problems []error
	for name := range given {
		i := slices.IndexFunc(known, func(k field) bool { return strings.EqualFold(k.name, name) }) // encoding/json compares names so
		if i < 0 {
			problems = append(problems, fmt.Errorf("%s: there is no such field; there are %s", name, list(known)))
		} else if known[i].secret {
			delete(given, name)
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	open, err := json.Marshal(given)
	if err != nil {
		return err
	}
	err = json.NewDecoder(bytes.NewReader(open)).Decode(&c)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return errors.Join(append(problems, fmt.Errorf("%s: it is a JSON %s; write %s", wrong.Field, wrong.Value, formOf(wrong.Type)))...)
	case err != nil:
		return errors.Join(append(problems, err)...)
	}
	return errors.Join(append(problems, c.Validate())...)
}

// UpTo returns the problem of a number that is not within its bound. 0 stands for the default.
func UpTo[N int | int64](name string, n, most, otherwise N) error {
	if n < 0 || n > most {
		return fmt.Errorf("%s: %d is out of range; use 1 to %d, or leave it out for %d", name, n, most, otherwise)
	}
	return nil
}

type field struct {
	name   string
	secret bool
}

func list(fields []field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

// fieldsOf returns a struct's fields, and those of the structs that it embeds.
func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			fields = append(fields, fieldsOf(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields = append(fields, field{name, f.Tag.Get("secret") == "true"})
	}
	return fields
}

// formOf is the form of a type's values in JSON.
func formOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list in brackets"
	}
	return "a value of type " + t.String()
}
