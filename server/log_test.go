package server_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/server"
	"tgi/server/config"
)

func TestNewLog(t *testing.T) {
	for _, c := range []struct{ format, want string }{
		{config.LogAuto, `"msg":"yes","a":1}`}, {config.LogJSON, `"msg":"yes","a":1}`}, {config.LogText, "msg=yes a=1"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		log := server.NewLog(f, config.Log{Level: slog.LevelWarn, Format: c.format})
		log.Info("no")
		log.Warn("yes", "a", 1)
		f.Close()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: got %s, want one line with %s", c.format, text, c.want)
		}
	}
}

// TestDrainLog: the log says in words how long a server that drains waits, not in nanoseconds.
func TestDrainLog(t *testing.T) {
	var log bytes.Buffer
	s := server.New(server.Options{Config: config.Default().Server, Healthy: func() error { return nil },
		Log: slog.New(slog.NewJSONHandler(&log, nil))})
	s.Open(nil, func() error { return nil })
	_, stop, done := live(t, s)
	stop()
	if err := <-done; err != nil || !strings.Contains(log.String(), `"msg":"draining","running":0,"timeout":"1m30s"`) {
		t.Errorf("%v, logged %s", err, log.String())
	}
}
