package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// checkMembers returns why a JSON text is not one that tgi wrote of a value of type t: an object with a member that t
// does not have, or twice, or null, or without one that is always written. encoding/json takes a damaged name for a
// member that is missing, and its value for the default, with which a guard may guard nothing. at is put before names.
func checkMembers(text []byte, t reflect.Type, at string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return fmt.Errorf("%swant an object", at)
	}
	types, always := map[string]reflect.Type{}, []string{}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if types[name] = t.Field(i).Type; options == "" {
			always = append(always, name)
		}
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return err
		}
		name, _ := key.(string)
		of, known := types[name]
		switch {
		case !known:
			return fmt.Errorf("%s%.64q is not the name of a member", at, name)
		case seen[name]:
			return fmt.Errorf("%s%s is there twice", at, name)
		case string(value) == "null":
			return fmt.Errorf("%s%s is null", at, name)
		}
		seen[name] = true
		if err := checkNested(value, of, at+name); err != nil {
			return err
		}
	}
	for _, name := range always {
		if !seen[name] {
			return fmt.Errorf("%s%s is missing", at, name)
		}
	}
	return nil
}

// checkNested is checkMembers for a member's value, where that is one of keptLimits or a list of keptUpload.
func checkNested(value []byte, t reflect.Type, at string) error {
	switch t {
	case reflect.TypeFor[keptLimits]():
		return checkMembers(value, t, at+".")
	case reflect.TypeFor[[]keptUpload]():
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		for i, one := range list {
			if err := checkMembers(one, t.Elem(), fmt.Sprintf("%s[%d].", at, i)); err != nil {
				return err
			}
		}
	}
	return nil
}
