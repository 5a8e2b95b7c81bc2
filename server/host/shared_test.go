package host

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
)

// shared is the server of all tests that talk with the demo model as it comes: starting one takes as long as most of
// what they ask. They may not change its settings or its plugins, or look at figures that others' requests change.
var shared struct {
	sync.Once
	*plugged
	err   error
	close []func()
}

// sharedChat returns it, with the plugin of openForced. The first call starts it, and TestMain ends it.
func sharedChat(t testing.TB) *plugged {
	t.Helper()
	shared.Do(func() { shared.err = openShared(t) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.plugged
}

func openShared(t testing.TB) error {
	folder, err := os.MkdirTemp("", "tgi-shared")
	if err != nil {
		return err
	}
	shared.close = append(shared.close, func() { _ = os.RemoveAll(folder) })
	c := chatConfig()
	c.Server.AdminKeys = []string{adminKey}
	c.Plugins.BreakerFaults = 0
	c.Plugins.Folder = folder
	h, err := Open(context.Background(), Options{Config: c, Version: "dev", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ts := httptest.NewServer(h)
	shared.close = append(shared.close, func() { _ = h.Close() }, ts.Close)
	shared.plugged = &plugged{h, ts.URL}
	shared.upload(t, "force", sdkGuest(t, "c", "every-mode"))
	return nil
}

func closeShared() {
	for _, f := range shared.close {
		defer f()
	}
}
