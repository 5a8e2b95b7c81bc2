package main

import "testing"

// TestBuiltinShown: plugins that are built in are described by their name, and can be fed a step.
func TestBuiltinShown(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	for _, word := range []string{"dry", "builtin:dry"} {
		out, _ := runTgi(t, 0, "plugin", "show", word)
		contains(t, out, "plugin     dry", "from       builtin:dry, built into this program", `"multiplier"`)
	}
	for _, word := range []string{"none-such", "builtin:none-such"} {
		runTgi(t, 1, "plugin", "show", word)
	}
	out, _ := runTgi(t, 0, "plugin", "run", "builtin:dry", "--prompt", "a b a", "--params", `{"multiplier": 2}`)
	contains(t, out, "dry")
	runTgi(t, 1, "plugin", "run", "builtin:none-such")
}
