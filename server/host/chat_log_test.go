package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/filestamp"
	"tgi/server/config"
)

// logLines is a log that can be read while it is written.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String is all there is.
func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// has waits for a line with all the words.
func (l *logLines) has(t *testing.T, words ...string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text := l.String()
		for line := range strings.Lines(text) {
			all := true
			for _, w := range words {
				all = all && strings.Contains(line, w)
			}
			if all {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no line has %q:\n%s", words, text)
		}
	}
}

// TestBadTemplateIsLogged: a template that does not parse, and a setting that can't be, are told in the log without a
// request that runs into them: what is wrong, where, and that the former one serves.
func TestBadTemplateIsLogged(t *testing.T) {
	dir := t.TempDir()
	file, path := filepath.Join(dir, "tgi.toml"), filepath.Join(dir, "x.jinja")
	// Replaced at once: a file that is empty for two ticks, while its writer waits for a processor, is a change too.
	settings := func(template string) {
		write(t, file+".new", fmt.Sprintf("[model]\n  template = %q\n", template))
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(t, path, "one {{ messages[0].content }}")
	settings("x.jinja")
	args, unset := []string{"--config", file}, func(string) (string, bool) { return "", false }
	c := testConfig()
	c.File, c.Model.Template, c.Plugins.Folder, c.Plugins.Watch = file, path, t.TempDir(),
		config.Duration(40*time.Millisecond)
	log := &logLines{}
	p := plug(t, openServerLogged(t, c, slog.New(slog.NewTextHandler(log, nil))))
	p.models.reload = func(running config.Config, seen *filestamp.Stamp) (config.Config, []string, error) {
		return config.Reload(running, settingFlags(t, args...), unset, seen)
	}
	ctx, end := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end()
	watching.Go(func() { p.models.watch(ctx, nil) })

	write(t, path, "two\n{{ a b }}")
	log.has(t, "level=ERROR", path+":2:6: ", `serving="the version before it"`)
	settings("y.jinja")
	log.has(t, "level=ERROR", file+":2:3: model.template: ", "y.jinja", "keeping the previous ones")
	settings("nobody")
	log.has(t, "level=ERROR", file+":2:3: model.template: there is no plugin", "nobody", "keeping the previous ones")
	if got, _ := p.prompt(t, hi); got != "one Hi" {
		t.Errorf("%q, want the first template", got)
	}
}
