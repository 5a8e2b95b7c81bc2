package plugins

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// ConfigKey makes the checksums of operators' configurations that replies tell of ([Used]). Configurations may be short
// and secret, such as the key of a watermark or the strings of a guard: a checksum that everybody can compute would
// tell a guess that is right. Its methods may be called from any goroutine.
type ConfigKey struct {
	secret []byte
	id     string
}

// NewConfigKey returns the key of a secret, or one of its own for none. Checksums by two keys cannot be compared, and
// have different beginnings.
func NewConfigKey(secret string) *ConfigKey {
	k := &ConfigKey{secret: []byte(secret)}
	if secret == "" {
		k.secret = make([]byte, 32)
		_, _ = rand.Read(k.secret) // it ends the program if it fails
	}
	k.id = hex.EncodeToString(k.mac("id", nil)[:8])
	return k
}

// mac is HMAC-SHA256 of a use and what is used (RFC 2104).
func (k *ConfigKey) mac(use string, of []byte) []byte {
	h := hmac.New(sha256.New, k.secret)
	_, _ = h.Write([]byte(use + "\x00"))
	_, _ = h.Write(of)
	return h.Sum(nil)
}

// Sum is the checksum of a configuration: 16 hex digits that name the key, a full stop, 64 hex digits. It is empty
// without a key, and where nothing is configured.
func (k *ConfigKey) Sum(config string) string {
	if k == nil || config == "" || config == "{}" {
		return ""
	}
	return k.id + "." + hex.EncodeToString(k.mac("config", []byte(config)))
}
