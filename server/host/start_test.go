package host

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/server/config"
)

// TestStartErrors: what prevents a start is told once, by the error, which names the setting.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct {
		name, text string
		args       []string
		want       string
	}{
		{"no such folder", "[model]\npath = \"nowhere\"\n", nil,
			"conf/tgi.toml:2:1: model.path: there is no folder or file conf/nowhere"},
		{"no such folder of one of several", "[[model]]\nname = \"a\"\npath = \"/nowhere\"\n", nil,
			"conf/tgi.toml:3:1: model.path: there is no folder or file /nowhere"},
		{"no such folder by a flag", "", []string{"--model-id", "nowhere"},
			"--model-id: model.path: there is no folder or file nowhere"},
		{"no model in the folder", "[model]\npath = \".\"\n", nil,
			"conf/tgi.toml:2:1: model.path: the folder conf holds no model: it has no config.json and no file *.gguf"},
		{"no such name", "[[model]]\nname = \"demo\"\n", nil,
			"model demo: wrong state: it is not_downloaded: the models folder does not have it; pull it, or name its path or source in the settings"},
		{"weights of another device", "[model]\nweights = \"bf16\"\n", nil,
			`model tgi-demo: conf/tgi.toml:2:1: model.weights must be fp32, int8 or int4 on cpu, given "bf16"`},
		{"nothing built in", "[[plugin]]\nname = \"a\"\nsource = \"builtin:dri\"\n", nil,
			`model tgi-demo: start: conf/tgi.toml:3:1: plugin.source: a: source "builtin:dri": nothing of this name is built in: ` +
				"banned-strings, banned-words, best-of-judge, budget-then-answer, dry, grammar, jinja, json-repair, " +
				"loop-breaker, mirostat, no-repeat-ngram, redact, thinking-budget, toolcalls, vote, watermark, xtc are; " +
				"did you mean dry?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.MkdirAll("conf", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("conf/tgi.toml", []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := config.Read(settingFlags(t, append(c.args, "--config", "conf/tgi.toml")...),
				func(string) (string, bool) { return "", false })
			if err != nil {
				t.Fatal(err)
			}
			l.Config.Plugins.Uploads, l.Config.Models.Folder = "", filepath.Join(dir, "models")
			var log bytes.Buffer
			h, err := Open(t.Context(), Options{Config: l.Config, Version: "dev",
				Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err == nil {
				_ = h.Close()
			}
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("the log tells it once more:\n%s", log.String())
			}
		})
	}
}

// TestWarnOpen: a server without keys that other machines reach says so as a warning, also where only the admin routes
// have a key.
func TestWarnOpen(t *testing.T) {
	for _, c := range []struct {
		hostname string
		change   func(*config.Server)
		warns    bool
	}{
		{"0.0.0.0", func(*config.Server) {}, true},
		{"0.0.0.0", func(s *config.Server) { s.AdminKeys = []string{"a"} }, true},
		{"0.0.0.0", func(s *config.Server) { s.APIKeys = []string{"a"} }, false},
		{"127.0.0.1", func(*config.Server) {}, false},
		{"::1", func(*config.Server) {}, false},
	} {
		cfg := config.Default()
		cfg.Server.Hostname, cfg.Server.Port = c.hostname, 0
		cfg.Model.Path = filepath.Join(t.TempDir(), "nowhere") // the start ends here
		c.change(&cfg.Server)
		var log bytes.Buffer
		err := Serve(context.Background(), Options{Config: cfg, Version: "dev",
			Log: slog.New(slog.NewTextHandler(&log, nil))}, nil, func(*Server, net.Addr) {})
		if err == nil || !strings.Contains(err.Error(), "model.path") {
			t.Errorf("%s: %v", c.hostname, err)
		}
		if strings.Contains(log.String(), "draining") {
			t.Errorf("%s: a start that failed drains:\n%s", c.hostname, log.String())
		}
		if got := strings.Contains(log.String(), "level=WARN msg=\"open: "); got != c.warns {
			t.Errorf("%s %v: warns: %v, want %v:\n%s", c.hostname, cfg.AllKeys(), got, c.warns, log.String())
		}
	}
}
