package plugins

import (
	"fmt"
	"strings"
	"testing"

	"tgi/sdk/abi"
)

// TestLogs: lines, bytes and plugins are bounded, and what is read goes on where it ended.
func TestLogs(t *testing.T) {
	l := NewLogs()
	for i := range 2 * LogLines {
		l.add("a", "guest", abi.LevelInfo, fmt.Sprint(i))
	}
	got := l.Lines("a", 0)
	if len(got) != LogLines || got[0].Text != fmt.Sprint(LogLines) || got[0].Level != "info" {
		t.Fatalf("%d lines from %+v", len(got), got[0])
	}
	if rest := l.Lines("a", got[LogLines-2].Seq); len(rest) != 1 || rest[0].Text != fmt.Sprint(2*LogLines-1) {
		t.Errorf("then %+v", rest)
	}
	if again := l.Lines("a", 1e6); len(again) != LogLines {
		t.Errorf("who saw more lines in an earlier run gets %d, not all", len(again))
	}
	for range 100 {
		l.add("a", "guest", 99, strings.Repeat("é", LogBytes))
	}
	sum := 0
	for _, line := range l.Lines("a", 0) {
		if sum += len(line.Text); strings.Contains(line.Text, "\ufffd") || line.Level != "error" {
			t.Fatal("a character was cut, or the level is ", line.Level)
		}
	}
	if sum > LogBytes {
		t.Errorf("%d bytes", sum)
	}
	for i := range LogNames {
		l.add(fmt.Sprint(i), "host", abi.LevelWarn, "x")
	}
	if len(l.rings) != LogNames || len(l.Lines("a", 0)) != 0 {
		t.Errorf("%d plugins, %d lines of the oldest", len(l.rings), len(l.Lines("a", 0)))
	}
	since := l.now()
	l.Forget("1")
	if l.addSince(since, "1", "", "guest", abi.LevelInfo, "late"); len(l.Lines("1", 0)) != 0 {
		t.Errorf("of a plugin that was removed: %+v", l.Lines("1", 0))
	}
	l.addSince(l.now(), "1", "", "guest", abi.LevelInfo, "new")
	if got := l.Lines("1", 0); len(got) != 1 || got[0].Text != "new" {
		t.Errorf("of one that took its name: %+v", got)
	}
	for i := range 2 * LogNames {
		l.Forget(fmt.Sprint(i))
	}
	if len(l.gone) != LogNames || len(l.rings) != 0 {
		t.Errorf("%d are known to be gone, %d have lines", len(l.gone), len(l.rings))
	}
	(*Logs)(nil).add("a", "guest", 0, "x")
}
