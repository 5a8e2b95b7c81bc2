package host

import (
	"log/slog"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestBatchesInUse: a second server with the folder of another is refused and told which setting to change.
func TestBatchesInUse(t *testing.T) {
	c := config.Default()
	c.Batches.Folder = t.TempDir()
	s, err := openBatches(c, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = openBatches(c, nil, slog.New(slog.DiscardHandler))
	if want := "batches.folder: " + c.Batches.Folder + ": another process uses it: end the other server, or give each " +
		"a folder of its own by batches.folder"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
