package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// stdin is the standard input of the test until it ends: what write writes to a pipe.
func stdin(t *testing.T, write func(*os.File)) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before, done := os.Stdin, make(chan struct{})
	os.Stdin = r
	go func() {
		defer close(done)
		write(w)
	}()
	t.Cleanup(func() {
		os.Stdin = before
		_ = r.Close() // which ends a writer whom nobody reads
		<-done
		_ = w.Close()
	})
	return r
}

// TestStdin: settings come on the standard input, are read once, and a reload has the same text. Files are relative to
// the working folder.
func TestStdin(t *testing.T) {
	stdin(t, func(w *os.File) {
		_, _ = w.WriteString("[server]\nport = 1\n[plugins]\nfolder")
		_, _ = w.WriteString(" = \"p\"\n")
		_ = w.Close()
	})
	flags, lookup := parsed(t, "--config", "-"), func(string) (string, bool) { return "", false }
	l, err := Read(flags, lookup)
	if err != nil || l.Config.Server.Port != 1 || l.Config.Plugins.Folder != "p" || l.Config.File != "" ||
		!l.Config.Stdin || l.origins["server.port"] != "standard input:2" {
		t.Fatalf("%+v, %v", l.Config.Server, err)
	}
	next, restart, err := Reload(l.Config, flags, lookup, nil)
	if err != nil || len(restart) > 0 || next.Server.Port != 1 {
		t.Errorf("reload: %q, %v", restart, err)
	}
}

// TestStdinWrong: errors name the standard input with the line.
func TestStdinWrong(t *testing.T) {
	for text, want := range map[string]string{
		"[server]\nprot = 1\n":         "standard input:2: ",
		"[server]\nport = -1\n":        "standard input:2: server.port",
		"":                             "standard input: it must hold settings, given nothing",
		" \n":                          "given nothing",
		"[[model]]\nname = \"a\"\n#\n": "the standard input declares 1 by [[model]]",
	} {
		t.Run(want, func(t *testing.T) {
			stdin(t, func(w *os.File) {
				_, _ = w.WriteString(text)
				_ = w.Close()
			})
			lookup := func(name string) (string, bool) { return "-", name == "TGI_CONFIG" }
			_, err := Read(parsed(t, "--model-id", "x"), lookup)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Error(err)
			}
		})
	}
}

// TestStdinBounds: neither an input without end nor one that says nothing holds up the program.
func TestStdinBounds(t *testing.T) {
	endless := stdin(t, func(w *os.File) {
		part := make([]byte, 1<<16)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	if _, err := readInput(endless, 1<<20, time.Minute); err == nil ||
		!strings.Contains(err.Error(), "at most 1048576 bytes") {
		t.Error(err)
	}
	silent := stdin(t, func(w *os.File) { _, _ = w.WriteString("port") })
	if _, err := readInput(silent, 1<<20, 50*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "it must end within 50ms, it has not after ") {
		t.Error(err)
	}
	closed, err := os.Open(os.DevNull)
	if err == nil {
		err = closed.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readInput(closed, 1, time.Minute); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
