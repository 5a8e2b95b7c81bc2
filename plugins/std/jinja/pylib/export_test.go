package pylib

import (
	"maps"
	"slices"
)

// StrMethods are the names of the methods of strings.
func StrMethods() []string { return slices.Sorted(maps.Keys(strMethods)) }

// Filters are the names of the filters.
func Filters() []string { return slices.Sorted(maps.Keys(filters)) }
