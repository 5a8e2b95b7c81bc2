package main

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"tgi/server/batches"
)

// TestBatchesInUse: commands that end soon leave the folder of batches to the server that runs on the same settings.
func TestBatchesInUse(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("tgi.toml", []byte("[batches]\nfolder = \"kept\"\n[log]\nlevel = \"error\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	stops := func(context.Context, string, string, []byte) (batches.Reply, error) {
		return batches.Reply{}, batches.ErrStopping
	}
	s, err := batches.Open("kept", batches.Limits{Lines: 1}, stops, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, words := range [][]string{
		{"check", "--port", "0"}, {"run", "hi", "--set", "max_tokens=1"}, {"explain", "hi"},
	} {
		runTgi(t, 0, words...)
	}
}
