package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSigners: keys of files are relative to the settings' file, those that are text stay, and a lock needs its digest.
func TestSigners(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tgi.toml")
	read := func(text string) (Loaded, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Read(nil, func(name string) (string, bool) { return file, name == "TGI_CONFIG" })
	}
	const text = "-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n"
	l, err := read("[[plugin_signer]]\nname = \"a\"\npublic_key = \"a.pub\"\n[[plugin_signer]]\nname = \"b\"\n" +
		"public_key = \"\"\"\n" + text + "\"\"\"\n")
	if err != nil || l.Config.PluginSigner[0].PublicKey != filepath.Join(filepath.Dir(file), "a.pub") ||
		l.Config.PluginSigner[1].PublicKey != text {
		t.Errorf("%+v, %v", l.Config.PluginSigner, err)
	}
	for text, want := range map[string]string{
		"[plugins]\nrequire_signed = true\n":      "plugins.require_signed wants a [[plugin_signer]]",
		"[[plugin_signer]]\npublic_key = \"a\"\n": "plugin_signer[0].name must",
		"[[plugin_signer]]\nname = \"a\"\n":       "plugin_signer[0].public_key must",
		"[[plugin_signer]]\nname = \"a\"\npublic_key = \"a\"\n[[plugin_signer]]\nname = \"a\"\npublic_key = \"b\"\n": "" +
			"plugin_signer[1].name must differ",
		"[[plugin]]\nname = \"a\"\nsource = \"a.wasm\"\nreference = \"r\"\n":                  "plugin[0].reference goes with sha256",
		strings.Repeat("[[plugin_signer]]\nname = \"a\"\npublic_key = \"a\"\n", maxSigners+1): "at most 64 blocks, given 65",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
