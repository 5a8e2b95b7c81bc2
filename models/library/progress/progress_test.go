package progress

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/models/library/fetch"
)

// TestPicture: lines stay for files that are whole, the others and the bar are
// drawn anew.
func TestPicture(t *testing.T) {
	v := &view{name: "org/model", width: 80, pace: pace{before: 1 << 20}}
	at := time.Unix(0, 0)
	draw := func(after time.Duration, done int64, items ...fetch.Item) string {
		at = at.Add(after)
		return strings.ReplaceAll(v.picture(at, items, done, 100<<20), "\x1b", "^")
	}
	config, weights := fetch.Item{Path: "config.json", Total: 1 << 20}, fetch.Item{Path: "model.safetensors",
		Total: 99 << 20}
	for i, step := range []struct{ got, want string }{
		{v.picture(at, nil, 0, 0), ""},
		{draw(0, 0, config, weights), "[------------------------]   0%  0 B of 100.0 MiB\n"},
		// What lay here before did not arrive just now.
		{draw(time.Second, 1<<20, fetch.Item{Path: "config.json", Done: 1 << 20, Total: 1 << 20}, weights),
			"^[1A^[J  config.json  1.0 MiB\n[------------------------]   1%  1.0 MiB of 100.0 MiB\n"},
		{draw(time.Second, 21<<20, fetch.Item{Path: "config.json", Done: 1 << 20, Total: 1 << 20},
			fetch.Item{Path: "model.safetensors", Done: 20 << 20, Total: 99 << 20}),
			"^[1A^[J  model.safetensors  20% of 99.0 MiB\n[#####-------------------]  21%  21.0 MiB of 100.0 MiB  10.0 MiB/s  8s left\n"},
		// The rate is that of the last seconds.
		{draw(20*time.Second, 41<<20, fetch.Item{Path: "config.json", Done: 1 << 20, Total: 1 << 20},
			fetch.Item{Path: "model.safetensors", Done: 40 << 20, Total: 99 << 20}),
			"^[2A^[J  model.safetensors  40% of 99.0 MiB\n[#########---------------]  41%  41.0 MiB of 100.0 MiB  1.0 MiB/s  59s left\n"},
		// Bytes that were wrong are gone.
		{draw(time.Second, 1<<20, fetch.Item{Path: "config.json", Done: 512, Total: 1 << 20},
			fetch.Item{Path: "model.safetensors", Total: 99 << 20}),
			"^[2A^[J  config.json  0% of 1.0 MiB\n[------------------------]   1%  1.0 MiB of 100.0 MiB\n"},
		{draw(time.Second, 100<<20, fetch.Item{Path: "config.json", Done: 1 << 20, Total: 1 << 20},
			fetch.Item{Path: "model.safetensors", Done: 99 << 20, Total: 99 << 20}),
			"^[2A^[J  config.json  1.0 MiB\n  model.safetensors  99.0 MiB\n[########################] 100%  100.0 MiB of 100.0 MiB\n"},
	} {
		if step.got != step.want {
			t.Errorf("step %d: got\n%q, want\n%q", i, step.got, step.want)
		}
	}
	v.width = 20
	_, frame, _ := strings.Cut(draw(time.Second, 50<<20, fetch.Item{Path: strings.Repeat("é", 40), Done: 1, Total: -1}),
		"^[J")
	for line := range strings.Lines(frame) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n != 19 {
			t.Errorf("a line of %d columns on a terminal of 20: %q", n, line)
		}
	}
}

func TestLine(t *testing.T) {
	v := &view{name: "a"}
	at := time.Unix(0, 0)
	for _, c := range []struct {
		after       time.Duration
		done, total int64
		want        string
	}{
		{0, 0, 0, "a: 0 B"},
		{time.Second, 1 << 20, 0, "a: 1.0 MiB  1.0 MiB/s"},
		{time.Second, 2 << 20, 1 << 40, "a:   0%  2.0 MiB of 1.0 TiB  1.0 MiB/s  291h16m left"},
		{time.Hour, 3 << 20, 1 << 40, "a:   0%  3.0 MiB of 1.0 TiB  291 B/s  more than a month left"},
		{time.Hour, 1 << 40, 1 << 40, "a: 100%  1.0 TiB of 1.0 TiB"},
	} {
		at = at.Add(c.after)
		if got := v.line(at, c.done, c.total); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// TestFollow: it is told once for each period, and the end.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		stop := follow(lineEvery, func(last bool) { told = append(told, last) })
		time.Sleep(2*lineEvery + time.Millisecond)
		stop()
		if len(told) != 3 || told[0] || told[1] || !told[2] {
			t.Errorf("told %v", told)
		}
	})
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1<<20 - 1: "1.0 MiB", 1 << 20: "1.0 MiB", 3 << 29: "1.5 GiB",
		5 << 40: "5.0 TiB", 5000 << 40: "5000.0 TiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("%d bytes are %q, want %q", n, got, want)
		}
	}
}
