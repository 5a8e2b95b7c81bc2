package doctor

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"tgi/server/config"
)

// keys looks whether strangers can use the server: without a key, with one that is easily guessed, or with one that
// they read on its way.
func (d *diagnosis) keys(_ context.Context, r *report) {
	s, list := d.cfg.Server, d.cfg.AllKeys()
	if d.cfg.Open() && !config.IsLocal(s.Hostname) {
		r.warn("keys", "none: whoever reaches "+s.Hostname+" may use the server",
			"set server.api_keys, or server.hostname to 127.0.0.1")
	} else {
		r.ok("keys", "%d", len(list))
	}
	for _, k := range list {
		if why := guessed(k.Key); why != "" {
			r.warn("key "+k.Name, why, "set a random one, as `openssl rand -hex 32` prints it")
		}
	}
	var open []string
	if !config.IsLocal(s.Hostname) {
		open = append(open, s.Hostname)
	}
	if s.AdminPort != 0 && !config.IsLocal(s.AdminHostname) {
		open = append(open, s.AdminHostname)
	}
	if len(list) > 0 && len(open) > 0 && s.TLSCert == "" {
		r.warn("TLS", "none: keys and texts reach "+strings.Join(open, " and ")+" unencrypted, unless a proxy in front of "+
			"the server does TLS", "set server.tls_cert and server.tls_key; behind such a proxy on this machine, "+
			"server.hostname = \"127.0.0.1\"")
	}
}

// leastKey is the length of a key below which it may be found by trying: 16 hexadecimal digits are 64 bits.
const leastKey = 16

// placeholder is what examples have in a key's place, and what people type first. Case, dashes, dots and underscores do
// not matter.
var placeholder = regexp.MustCompile(`changeme|replaceme|placeholder|example|yourkey|yourapikey|yourtoken|` +
	`^(sk)?(my|the|an?|test|demo|super|top)*(api|admin)?(key|token|secret|password|passwd)?\d{0,4}$|` +
	`^(test|demo|default|admin|root|user|letmein|qwerty|abc|x+)+\d{0,4}$`)

// guessed returns why a key is easily guessed, "" if it is not. It repeats nothing of it.
func guessed(key string) string {
	plain := strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(key))
	switch {
	case placeholder.MatchString(plain):
		return "it is a placeholder, which anybody tries first"
	case len(key) < leastKey:
		return fmt.Sprintf("it has %d characters, fewer than %d: it can be found by trying", len(key), leastKey)
	}
	return ""
}
