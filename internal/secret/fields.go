package secret

import (
	"reflect"
	"strings"
)

// Fields are the JSON names of the fields of a configuration that are tagged `secret:"true"`, also in embedded structs; the
// name of a field within a field has dots between. config is a struct or a pointer to one.
func Fields(config any) []string {
	return fieldsOf(reflect.TypeOf(config), "")
}

func fieldsOf(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var fields []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			fields = append(fields, fieldsOf(f.Type, path)...)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		if f.Tag.Get("secret") == "true" {
			fields = append(fields, path+name)
		} else {
			fields = append(fields, fieldsOf(f.Type, path+name+".")...)
		}
	}
	return fields
}
