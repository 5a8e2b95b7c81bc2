package main

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tgi/models/library/fetch/hubtest"
	"tgi/server/config"
	"tgi/server/host"
)

// TestSignalsWhileLoading: a signal to reload does not end a server that fetches its
// first model, and one to end it is no failure.
func TestSignalsWhileLoading(t *testing.T) {
	hub := hubtest.New(t, hubtest.Checkpoint)
	hub.StopOnce(hubtest.Weights, 1000)
	c := config.Default()
	c.Server.Port, c.Plugins.Uploads = 0, ""
	c.Models.Folder, c.Models.Hub = t.TempDir(), hub.URL
	fetched := config.Default().Model
	fetched.Name, fetched.Source, fetched.Preload = "fetched", "org/model", true
	c.ModelList = []config.Model{fetched}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, host.Options{Config: c, Version: version, Log: slog.New(slog.DiscardHandler)}, os.Stderr)
	}()
	for !strings.Contains(strings.Join(hub.Asked(), " "), hubtest.Weights) {
		select {
		case err := <-served:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	// A signal to the calling thread has been handled when the call returns; one to the process may come later, when
	// the server has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
