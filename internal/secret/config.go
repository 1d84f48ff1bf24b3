package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// SealConfig seals the secret fields of a connector's configuration, a JSON object. A secret is a text, or an object (a service
// account's key), which is sealed as its JSON. A sealed field must have been sealed for this connector and this field, and is
// left unchanged. A configuration without secrets needs no key. One with the name of a secret field in other letters is refused.
func (r *Ring) SealConfig(connector int32, fields []string, config []byte) ([]byte, error) {
	object, err := decode(config)
	if err != nil {
		return nil, err
	}
	changed := false
	for _, field := range fields {
		if err := spelled(object, field); err != nil {
			return nil, err
		}
		at, name := find(object, field)
		if at == nil || at[name] == nil {
			continue
		}
		text, err := plain(at[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if IsEnvelope(text) {
			if _, err := r.Open(connector, field, text); err != nil {
				return nil, err
			}
			continue
		}
		if at[name], err = r.Seal(connector, field, text); err != nil {
			return nil, err
		}
		changed = true
	}
	if !changed {
		return config, nil
	}
	return encode(object)
}

// OpenConfig returns the secret fields of a configuration, by name; absent fields are left out. A secret that is not sealed is
// an error, so that people always seal; so is the name of a secret field in other letters.
func (r *Ring) OpenConfig(connector int32, fields []string, config []byte) (map[string]string, error) {
	object, err := decode(config)
	if err != nil {
		return nil, err
	}
	secrets := map[string]string{}
	for _, field := range fields {
		if err := spelled(object, field); err != nil {
			return nil, err
		}
		at, name := find(object, field)
		if at == nil || at[name] == nil {
			continue
		}
		text, isText := at[name].(string)
		if !isText {
			return nil, fmt.Errorf("%s %w", field, ErrPlain)
		}
		if secrets[field], err = r.Open(connector, field, text); err != nil {
			return nil, err
		}
	}
	return secrets, nil
}

// Sealed counts the envelopes of a configuration, and those that are sealed with an older key than the current one.
func (r *Ring) Sealed(config []byte) (all, old int, err error) {
	object, err := decode(config)
	if err != nil {
		return 0, 0, err
	}
	err = eachEnvelope(object, "", func(_, envelope string) (string, error) {
		if all++; KeyOf(envelope) != r.Current() {
			old++
		}
		return envelope, nil
	})
	return all, old, err
}

// ResealConfig seals every envelope of a configuration with the current key, and returns how many it changed. All other values
// stay as they are.
func (r *Ring) ResealConfig(connector int32, config []byte) (resealed []byte, count int, err error) {
	object, err := decode(config)
	if err != nil {
		return nil, 0, err
	}
	err = eachEnvelope(object, "", func(field, envelope string) (string, error) {
		fresh, err := r.Reseal(connector, field, envelope)
		if fresh != envelope {
			count++
		}
		return fresh, err
	})
	if err != nil || count == 0 {
		return config, 0, err
	}
	resealed, err = encode(object)
	return resealed, count, err
}

// eachEnvelope replaces every envelope below a value. Envelopes are values of fields, and never elements of a list.
func eachEnvelope(object map[string]any, path string, replace func(field, envelope string) (string, error)) error {
	var problems []error
	for name, value := range object {
		switch v := value.(type) {
		case map[string]any:
			problems = append(problems, eachEnvelope(v, path+name+".", replace))
		case string:
			if !IsEnvelope(v) {
				continue
			}
			fresh, err := replace(path+name, v)
			problems = append(problems, err)
			if err == nil {
				object[name] = fresh
			}
		}
	}
	return errors.Join(problems...)
}

// find returns the object that contains a field, nil where there is none, and the field's name in it.
func find(object map[string]any, field string) (at map[string]any, name string) {
	outer, inner, nested := strings.Cut(field, ".")
	if !nested {
		return object, field
	}
	below, is := object[outer].(map[string]any)
	if !is {
		return nil, ""
	}
	return find(below, inner)
}

// spelled refuses a field's name in other letters: sources take it for the field, and nobody would seal it.
func spelled(object map[string]any, field string) error {
	outer, inner, nested := strings.Cut(field, ".")
	for name := range object {
		if name != outer && strings.EqualFold(name, outer) {
			return fmt.Errorf("%s: write it as %s", name, outer)
		}
	}
	below, is := object[outer].(map[string]any)
	if !nested || !is {
		return nil
	}
	if err := spelled(below, inner); err != nil {
		return fmt.Errorf("%s.%w", outer, err)
	}
	return nil
}

func plain(value any) (string, error) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return "", errors.New("is empty: leave it out, or give the secret")
		}
		if strings.HasPrefix(v, prefix) && !IsEnvelope(v) {
			return "", errors.New("looks like an envelope and is none: was it cut off?")
		}
		return v, nil
	case map[string]any:
		text, err := encode(v)
		return string(text), err
	}
	return "", errors.New("a secret is a text or an object")
}

// decode keeps numbers as they are written.
func decode(config []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber()
	object := map[string]any{}
	if err := decoder.Decode(&object); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New("the configuration is not a JSON object") // json's error may quote the secret
	}
	return object, nil
}

func encode(object map[string]any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		return nil, errors.New("the configuration cannot be written as JSON")
	}
	return bytes.TrimSpace(out.Bytes()), nil
}
