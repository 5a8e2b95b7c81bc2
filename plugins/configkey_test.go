package plugins

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
)

// TestConfigKey: checksums of configurations are the same by the same secret alone, and nobody makes them without it.
func TestConfigKey(t *testing.T) {
	const config = `{"strings":["Lumo"]}`
	const secret = "a secret of the operator"
	one, same, other := NewConfigKey(secret), NewConfigKey(secret), NewConfigKey("b")
	mac := one.Sum(config)
	if !regexp.MustCompile(`^[0-9a-f]{16}\.[0-9a-f]{64}$`).MatchString(mac) {
		t.Errorf("%q", mac)
	}
	if same.Sum(config) != mac || one.Sum(config+" ") == mac {
		t.Error("it does not follow from secret and configuration")
	}
	for _, k := range []*ConfigKey{other, NewConfigKey(""), NewConfigKey("")} {
		if id, _, _ := strings.Cut(mac, "."); strings.HasPrefix(k.Sum(config), id) {
			t.Errorf("%q and %q: another key has the same name", mac, k.Sum(config))
		}
	}
	plain := sha256.Sum256([]byte(config))
	if strings.Contains(mac, hex.EncodeToString(plain[:])) {
		t.Error("anybody can make it")
	}
	if one.Sum("") != "" || one.Sum("{}") != "" || (*ConfigKey)(nil).Sum(config) != "" {
		t.Error("nothing has a checksum")
	}
}
