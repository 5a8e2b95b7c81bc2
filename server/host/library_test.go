package host

import (
	"errors"
	"net/url"
	"testing"

	"tgi/models/library/fetch"
)

func TestAllowedHosts(t *testing.T) {
	parse := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, c := range []struct {
		hub, url string
		hosts    []string
		ok       bool
	}{
		{"https://huggingface.co", "https://huggingface.co/a/b", nil, true},
		{"https://huggingface.co", "https://cdn-lfs.huggingface.co/a", nil, true},
		{"https://huggingface.co", "https://cas-bridge.xethub.hf.co/a", nil, true},
		{"https://huggingface.co", "https://evilhuggingface.co/a", nil, false},
		{"https://huggingface.co", "https://huggingface.co.evil.example/a", nil, false},
		{"https://huggingface.co", "http://127.0.0.1:8080/a", nil, false},
		{"https://huggingface.co", "http://169.254.169.254/latest", []string{"example.com"}, false},
		{"https://huggingface.co", "https://example.com/a", []string{"example.com"}, true},
		{"https://huggingface.co", "https://example.com:8443/a", []string{"example.com:8443"}, true},
		{"https://huggingface.co", "https://example.com:8444/a", []string{"example.com:8443"}, false},
		{"http://127.0.0.1:9", "http://127.0.0.1:9/x", nil, true},
		{"http://127.0.0.1:9", "http://127.0.0.1:10/x", nil, false},
		{"https://hub.example", "https://x.hf.co/a", nil, false},
	} {
		err := allowed(parse(c.url), parse(c.hub), c.hosts)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, fetch.ErrSource) {
			t.Errorf("hub %s, hosts %q: %s: %v", c.hub, c.hosts, c.url, err)
		}
	}
}
