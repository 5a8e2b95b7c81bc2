package config

import (
	"encoding"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Annotations of the flags that Flags.AddTo adds.
const (
	// FlagVariables lists the environment variables of a flag, the strongest last.
	FlagVariables = "variables"
	// FlagKey is the key of tgi.toml that a flag sets.
	FlagKey = "key"
	// FlagNoEffect says why a flag of TGI's launcher has no effect.
	FlagNoEffect = "no-effect"
)

// Flags are the settings of a command line, as text. Read checks them together with
// those of the file and the environment. The zero value has none.
type Flags struct {
	given map[string]string
	stdin input // where the file of settings is Stdin
}

// AddTo adds a flag to a command line for every setting, and hidden ones for the flags of TGI's
// launcher that are accepted without effect. A flag that the set has already stays the command's own.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	add := func(name, short, help string, v *flagValue, hidden bool, annotations map[string][]string) {
		if set.Lookup(name) != nil {
			return
		}
		v.flags, v.name = f, name
		flag := set.VarPF(v, name, short, help)
		flag.Hidden, flag.Annotations = hidden, annotations
		if v.kind == kindBool {
			flag.NoOptDefVal = "true"
		}
	}
	add(configFlag, "", "settings to read, "+Stdin+" for the standard input; without it "+DefaultFile+
		" of the working folder, if it is there",
		&flagValue{kind: "file"}, false, map[string][]string{FlagVariables: {env(configFlag)}})
	defaults := Default()
	for i := range settings {
		s := &settings[i]
		v := &flagValue{kind: s.kind(), shown: s.text(&defaults)}
		if s.flag == legacyInput {
			v.shown = ""
		}
		add(s.flag, s.short(), s.help, v, false,
			map[string][]string{FlagVariables: append([]string{env(s.flag)}, s.also...), FlagKey: {s.key}})
	}
	for i := range effectless {
		e := &effectless[i]
		if e.flag == "" {
			continue
		}
		v := &flagValue{kind: "value"}
		if e.bare {
			v.kind = kindBool
		}
		add(e.flag, "", e.reason, v, true, map[string][]string{FlagNoEffect: {e.reason}})
	}
}

// Types of values, as help shows them.
const (
	kindBool = "bool"
	kindList = "list"
)

// flagValue is the value of one flag. It implements pflag.Value.
type flagValue struct {
	flags      *Flags
	name, kind string
	shown      string // the default, for help
}

// String implements pflag.Value.
func (v *flagValue) String() string {
	if v.flags != nil {
		if given, ok := v.flags.given[v.name]; ok {
			return given
		}
	}
	return v.shown
}

// Set implements pflag.Value. A list may be given in parts; of other values the last counts.
func (v *flagValue) Set(text string) error {
	if v.flags.given == nil {
		v.flags.given = map[string]string{}
	}
	if before, twice := v.flags.given[v.name]; twice && v.kind == kindList {
		text = before + "," + text
	}
	v.flags.given[v.name] = text
	return nil
}

// Type implements pflag.Value.
func (v *flagValue) Type() string { return v.kind }

// kind names the type of a setting's value.
func (s *setting) kind() string {
	switch s.at(&Config{}).(type) {
	case *bool, jsonOutput:
		return kindBool
	case *[]string:
		return kindList
	case *int, *float64:
		return "number"
	case *Duration, *Wait:
		return "duration"
	case *Size:
		return "size"
	}
	return "string"
}

// short is the one-letter form that TGI's launcher has.
func (s *setting) short() string {
	if s.flag == "port" {
		return "p"
	}
	return ""
}

// text is the value of a setting in c, as a flag would give it.
func (s *setting) text(c *Config) string {
	switch v := s.at(c).(type) {
	case *string:
		return *v
	case *[]string:
		return strings.Join(*v, ",")
	case *int:
		return strconv.Itoa(*v)
	case *bool:
		return strconv.FormatBool(*v)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case jsonOutput:
		return strconv.FormatBool(*v.format == LogJSON)
	case logLevel:
		return strings.ToLower(v.level.String())
	case fmt.Stringer:
		return v.String()
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			panic("BUG: a default without a text: " + err.Error())
		}
		return string(text)
	default:
		panic(fmt.Sprintf("BUG: no way to show a setting of type %T", v))
	}
}
