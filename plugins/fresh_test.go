package plugins

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestFreshCacheSaid: that plugins are compiled, because nothing is in the cache yet, is said once, before the first is
// loaded.
func TestFreshCacheSaid(t *testing.T) {
	var log bytes.Buffer
	o := options(t, Options{})
	o.CacheDir, o.Log = t.TempDir(), slog.New(slog.NewTextHandler(&log, nil))
	for range 2 {
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if text := log.String(); strings.Count(text, "plugins are compiled") != 1 {
		t.Error(text)
	}
}
