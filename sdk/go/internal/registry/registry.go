// Package registry has the description of a guest and the kinds that it
// registered, each with functions that the kind's package makes.
package registry

import (
	"errors"
	"strconv"
	"unicode/utf8"
)

// Kind is one kind of plugin that the guest serves.
type Kind struct {
	Name       string
	Modes      []string
	Needs      []string
	Candidates int
	Contexts   int
	Languages  []string
	Guard      string // JSON object of a guard, or empty
	// Init reads the configuration. It is called once.
	Init func(config []byte) error
	// Begin starts the sequence.
	Begin func(params []byte, prompt []uint32) error
}

// Info describes the guest as a whole.
type Info struct {
	Name, Version, Doc string
	// Params is a JSON Schema, or empty.
	Params string
	// Config is true if the configuration is read.
	Config bool
	// State is what is kept of a sequence, or empty.
	State string
}

var (
	info  Info
	kinds []Kind
)

// Headroom is how many bytes of the heap are left free before the snapshot.
var Headroom = 2 << 20

// Describe sets the description.
func Describe(i Info) { info = i }

// Add registers a kind. It replaces an earlier registration of the same kind.
func Add(k Kind) {
	for i := range kinds {
		if kinds[i].Name == k.Name {
			kinds[i] = k
			return
		}
	}
	kinds = append(kinds, k)
}

// Init passes the configuration to every kind, in the order of registration.
func Init(config []byte) error {
	for _, k := range kinds {
		if err := k.Init(config); err != nil {
			return err
		}
	}
	return nil
}

// Begin starts a sequence of every kind. tgi_validate calls it with an empty prompt.
func Begin(params []byte, prompt []uint32) error {
	for _, k := range kinds {
		if err := k.Begin(params, prompt); err != nil {
			return err
		}
	}
	return nil
}

// Description returns the JSON that tgi_describe returns.
func Description() []byte {
	b := append([]byte(nil), `{"name":`...)
	b = AppendString(b, info.Name)
	b = append(b, `,"version":`...)
	b = AppendString(b, info.Version)
	b = append(b, `,"doc":`...)
	b = AppendString(b, info.Doc)
	var names, modes, needs, languages []string
	candidates, contexts := 0, 0
	for _, k := range kinds {
		names = append(names, k.Name)
		modes = append(modes, k.Modes...)
		needs = append(needs, k.Needs...)
		languages = append(languages, k.Languages...)
		candidates, contexts = max(candidates, k.Candidates), max(contexts, k.Contexts)
	}
	b = appendStrings(append(b, `,"kinds":`...), names)
	b = appendStrings(append(b, `,"modes":`...), modes)
	b = appendStrings(append(b, `,"needs":`...), needs)
	if candidates > 0 {
		b = strconv.AppendInt(append(b, `,"candidates":`...), int64(candidates), 10)
	}
	if contexts > 0 {
		b = strconv.AppendInt(append(b, `,"contexts":`...), int64(contexts), 10)
	}
	if len(languages) > 0 {
		b = appendStrings(append(b, `,"languages":`...), languages)
	}
	for _, k := range kinds {
		if k.Guard != "" {
			b = append(append(b, `,"guard":`...), k.Guard...)
		}
	}
	if info.State != "" {
		b = AppendString(append(b, `,"state":`...), info.State)
	}
	if info.Config {
		b = append(b, `,"config":true`...)
	}
	if info.Params != "" {
		b = append(append(b, `,"params":`...), info.Params...)
	}
	return append(b, '}')
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, s)
	}
	return append(b, ']')
}

// AppendString appends s as a JSON string. encoding/json would make every guest
// half as large again.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// Validator is an optional interface of plugins of the kinds template, tools and grammar.
type Validator interface{ Validate(params []byte) error }

// Validate checks a request's parameters with the plugin's Validate. A plugin
// without it accepts no parameters.
func Validate(plugin any, params []byte) error {
	if v, ok := plugin.(Validator); ok {
		return v.Validate(params)
	}
	for _, c := range params {
		if c != '{' && c != '}' && c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return errors.New("the plugin takes no parameters: it has no method Validate, which checks them")
		}
	}
	return nil
}
