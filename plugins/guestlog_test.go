package plugins

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/sdk/abi"
)

// TestGuestPanics: of a panic the first line is a warning, once a minute; what else a guest says stays what it is.
func TestGuestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &Set{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}))}
		log := s.guestLogger(0, "p", "")
		panics := func() {
			for _, line := range []string{"fatal error: runtime: out of memory", "", "goroutine 1 [running]:",
				"runtime.throw({0x1f2c3, 0x16})", "\t/usr/local/go/src/runtime/panic.go:1094 +0x3 fp=0x1",
				"main.(*renderer).render(0xc000, {0x1, 0x2}, ...)", "created by main.start in goroutine 1",
				"exit status 2"} {
				log(abi.LevelWarn, line)
			}
		}
		panics()
		panics()
		log(abi.LevelWarn, "a word of the plugin's own (two)")
		log(abi.LevelError, "an error")
		if got := strings.Count(out.String(), "\n"); got != 3 || strings.Count(out.String(), "out of memory") != 1 ||
			!strings.Contains(out.String(), "level=ERROR msg=\"an error\"") {
			t.Errorf("%d lines:\n%s", got, &out)
		}
		time.Sleep(time.Minute)
		panics()
		if strings.Count(out.String(), "out of memory") != 2 {
			t.Errorf("a minute later:\n%s", &out)
		}
	})
}
