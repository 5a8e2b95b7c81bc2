package config

import (
	"strings"
	"testing"
)

// TestMatchesPlugin: a star stands for any characters, none among them.
func TestMatchesPlugin(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "a", true}, {"a*", "ab", true}, {"a*", "ba", false},
		{"*b", "ab", true}, {"*b", "b", true}, {"*b", "ba", false}, {"a*a", "a", false}, {"a*a", "aba", true},
		{"a*b*c", "a-c-b-c", true}, {"a*b*c", "acb", false}, {"*", "anything", true}, {"ab*ba", "aba", false},
		{"a**b", "ab", true},
	} {
		if got := MatchesPlugin([]string{"other", c.pattern}, c.name); got != c.want {
			t.Errorf("%s on %s: %v", c.pattern, c.name, got)
		}
	}
	if MatchesPlugin([]string{}, "a") {
		t.Error("no pattern matches")
	}
}

// TestKeyPlugins: what a list of plugins may hold.
func TestKeyPlugins(t *testing.T) {
	for name, good := range map[string]bool{"min-p": true, "a-*": true, "*": true, "*-b": true, "": false, "A": false,
		"a b": false, "a--b": false} {
		c := Default()
		c.Key = []Key{{Name: "k", Key: "secret", Scopes: []string{ScopeGenerate}, Plugins: []string{name}}}
		err := c.Validate()
		if good != (err == nil) || err != nil && !strings.Contains(err.Error(), "key[0].plugins[0] must be the name") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
