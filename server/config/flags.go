package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// flagKind says what follows a flag.
type flagKind uint8

const (
	valueFlag flagKind = iota // one value, the last counts
	listFlag                  // one value each time
	bareFlag                  // nothing
)

// flags returns every flag that is accepted.
func flags() map[string]flagKind {
	known := map[string]flagKind{configFlag: valueFlag}
	for i := range settings {
		s := &settings[i]
		switch _, list := s.at(&Config{}).(*[]string); {
		case list:
			known[s.flag] = listFlag
		case s.bare():
			known[s.flag] = bareFlag
		default:
			known[s.flag] = valueFlag
		}
	}
	for _, f := range effectless {
		if f.flag == "" {
			continue
		}
		known[f.flag] = valueFlag
		if f.bare {
			known[f.flag] = bareFlag
		}
	}
	return known
}

// unknownFlag names the flag that was probably meant.
func unknownFlag(name string, known map[string]flagKind) error {
	near := Suggest(name, slices.Sorted(maps.Keys(known)))
	return fmt.Errorf("unknown flag --%s%s", name, strings.Replace(near, "mean ", "mean --", 1))
}
