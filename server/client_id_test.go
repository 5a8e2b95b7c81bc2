package server

import (
	"context"
	"net/http/httptest"
	"testing"
)

func TestClientID(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1:1234":                "address 192.0.2.1",
		"[::ffff:192.0.2.1]:1":          "address 192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:80":     "address 2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1%eth0]:9": "address 2001:db8:1:2::/64",
		"@":                             "address @",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		r = fromAddress(r)
		if got := ClientID(r.Context()); got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
		keyed := context.WithValue(r.Context(), keyKey{}, &key{name: "dashboard"})
		if got := ClientID(keyed); got != "key dashboard" {
			t.Errorf("with a key: %s", got)
		}
	}
	if got := ClientID(t.Context()); got != "" {
		t.Errorf("without a request: %s", got)
	}
}

// TestLinesStandBeneath: the lines of batches give way to all other requests.
func TestLinesStandBeneath(t *testing.T) {
	ctx := context.WithValue(t.Context(), lineKey{}, &line{owner: "o"})
	if c := Client(ctx); !c.Beneath || c.Name != "batch o" || c.Share != batchShare {
		t.Errorf("a line is %+v", c)
	}
	if c := Client(t.Context()); c.Beneath {
		t.Errorf("a request is %+v", c)
	}
}
