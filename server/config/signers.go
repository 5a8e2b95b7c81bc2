package config

import (
	"fmt"
	"strings"
)

// PluginSigner is one [[plugin_signer]]: somebody whose signature of a plugin counts.
type PluginSigner struct {
	// Name is what lists and errors call the signer.
	Name string `toml:"name"`
	// PublicKey is one of ECDSA on P-256 or of Ed25519: a PEM file, relative to the folder of the settings' file, or
	// the PEM text itself.
	PublicKey string `toml:"public_key"`
}

// maxSigners bounds the signers: each signature is tried with each key.
const maxSigners = 64

// IsFile reports whether the public key is a file and not the text of one.
func (s PluginSigner) IsFile() bool {
	return s.PublicKey != "" && !strings.HasPrefix(strings.TrimSpace(s.PublicKey), "-----BEGIN")
}

// validateSigners adds what is out of bounds in [[plugin_signer]].
func (c *Config) validateSigners(v *verdict) {
	v.check(len(c.PluginSigner) <= maxSigners, "plugin_signer must have at most %d blocks, given %d", maxSigners,
		len(c.PluginSigner))
	first := map[string]int{}
	for i, s := range c.PluginSigner {
		at := fmt.Sprintf("plugin_signer[%d].", i)
		v.check(s.Name != "" && len(s.Name) <= maxName, "%sname must have 1 to %d bytes, given %q", at, maxName,
			trim(s.Name))
		if j, ok := first[s.Name]; ok {
			v.check(false, "%sname must differ from plugin_signer[%d].name, given %q twice", at, j, trim(s.Name))
		}
		first[s.Name] = i
		v.check(s.PublicKey != "", `%spublic_key must be a PEM file or text of a public key, given ""`, at)
	}
}
