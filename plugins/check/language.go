package check

import (
	"fmt"
	"slices"
	"strings"

	"tgi/plugins/internal/guest"
)

// LanguageError says that a grammar was given in a language that the plugin does not list.
type LanguageError struct {
	Language string
	Known    []string // empty for a plugin of another kind than grammar
}

// Error names the languages that there are.
func (e *LanguageError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("language %q: the plugin compiles no grammars", e.Language)
	}
	return fmt.Sprintf("language %q: the plugin knows %s", e.Language, strings.Join(e.Known, ", "))
}

// checkLanguages returns a *LanguageError for the first grammar that a plugin has no language for.
func checkLanguages(list []Grammar, known []string) error {
	for _, g := range list {
		if !slices.Contains(known, g.Language) {
			return &LanguageError{g.Language, known}
		}
	}
	return nil
}

// Kinds returns the kinds that a module has exports of, as far as its bytes can be read.
func Kinds(wasm []byte) []string { return guest.Kinds(wasm) }
