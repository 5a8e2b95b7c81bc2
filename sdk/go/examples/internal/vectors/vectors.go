// Package vectors reads what the examples of all languages are tested with.
package vectors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Case is one of them. Which fields there are depends on the example.
type Case struct {
	// About says what it shows.
	About string
	// Config and Request are JSON objects; Config is {} where there is none.
	Config, Request json.RawMessage
	// Out is what a template writes: a string is its own, an array holds one
	// that is data.
	Out []any
	// Text is what a model writes: strings, and arrays of one that is a special
	// token. Cut: the length limit ends it.
	Text []any
	Cut  bool
	// Events are what a parser tells of it, one line each.
	Events []string
	// Words are the vocabulary under a grammar, Tokens those that are chosen.
	// Before the first and behind each, Allowed are the words that may come next,
	// with a space between them, and Forced the tokens that must. Bad may not come
	// at the end.
	Words   []string
	Tokens  []uint32
	Allowed []string
	Forced  [][]uint32
	Bad     *uint32
	// Error is what the plugin says against it.
	Error string
}

// Read returns the cases of an example.
func Read(t testing.TB, example string) (all []Case) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "vectors", example+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d cases, %v", example, len(all), err)
	}
	for i := range all {
		if all[i].Config == nil {
			all[i].Config = json.RawMessage("{}")
		}
	}
	return all
}
