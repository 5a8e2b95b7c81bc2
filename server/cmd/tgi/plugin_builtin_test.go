package main

import (
	"os"
	"testing"
)

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
	out, said := runTgi(t, 0, "plugin", "check", "builtin:dry", "--params", `{"multiplier": 2}`)
	contains(t, out, "builtin:dry: ", "sound")
	if said != "" { // it is no terminal
		t.Error(said)
	}
	out, _ = runTgi(t, 0, "plugin", "bench", "builtin:dry", "--steps", "1", "--vocab", "512")
	contains(t, out, "dry, a vocabulary of 512 tokens")
	for _, command := range []string{"run", "check", "bench"} {
		runTgi(t, 1, "plugin", command, "builtin:none-such")
	}
}

// TestUnsignedShown: what list shows of the settings and of the folder is described, and so is a file; none of it was
// signed. To verify it fails.
func TestUnsignedShown(t *testing.T) {
	module, err := os.ReadFile("../../../examples/always-on/no-long-numbers.wasm")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv(envKeyPassword, "secret")
	if err := os.Mkdir("plugins", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"x.wasm": module, "plugins/mine.wasm": module,
		"tgi.toml": []byte("[plugins]\nfolder = \"plugins\"\n[[plugin]]\nname = \"house\"\nsource = \"x.wasm\"\n")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runTgi(t, 0, "plugin", "sign", "--generate", "team", "--algorithm", "ed25519")
	for word, from := range map[string]string{"house": "x.wasm", "mine": "plugins/mine.wasm", "x.wasm": "x.wasm"} {
		out, _ := runTgi(t, 0, "plugin", "show", word)
		contains(t, out, "plugin     no-long-numbers", "kinds      logits", from+"\n", "signatures 0; ")
		_, said := runTgi(t, 1, "plugin", "verify", word, "--key", "team.pub")
		contains(t, said, from+" was not signed or installed")
	}
}
