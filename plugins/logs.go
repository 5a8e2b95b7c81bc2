package plugins

import (
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// Logs keeps the last lines of each plugin: what its guests print, at every level, and what goes wrong with them. Sets
// may share one. It is bounded: see [LogLines], [LogBytes] and [LogNames].
type Logs struct {
	mu    sync.Mutex
	seq   uint64
	rings map[string]*ring
	// gone is seq when the lines of a plugin were forgotten. Guests of before, whose requests finish, add none.
	gone map[string]uint64
}

// What Logs keeps: so many lines and bytes of a plugin, and so many plugins, the ones with the oldest news go first.
const (
	LogLines = 512
	LogBytes = 64 << 10
	LogNames = 256
)

// LogLine is one line of a plugin.
type LogLine struct {
	// Seq counts the lines of all plugins.
	Seq   uint64
	Time  time.Time
	Level string
	// Of is "guest" for what the module printed, "host" for what the server says of it.
	Of string
	// Trial is TrialCanary or TrialShadow for a line of a version that is tried beside the one that serves, else "".
	Trial string
	// Text of the line, at most 4 KiB of it.
	Text string
}

// What a version is tried as.
const (
	TrialCanary = "canary"
	TrialShadow = "shadow"
)

// ring is the lines of one plugin, oldest first.
type ring struct {
	lines []LogLine
	bytes int
}

// NewLogs makes an empty one.
func NewLogs() *Logs { return &Logs{rings: map[string]*ring{}, gone: map[string]uint64{}} }

// levelNames are those of the lines.
var levelNames = map[int]string{abi.LevelDebug: "debug", abi.LevelInfo: "info", abi.LevelWarn: "warn",
	abi.LevelError: "error"}

// maxLogText is the most bytes of one line.
const maxLogText = 4 << 10

func (l *Logs) add(name, of string, level int, text string) { l.addTried(name, "", of, level, text) }

// addTried adds a line of a version that is tried as trial, "" for one that serves.
func (l *Logs) addTried(name, trial, of string, level int, text string) {
	l.addSince(math.MaxUint64, name, trial, of, level, text)
}

// Note adds a line of what was done to a plugin, or refused.
func (l *Logs) Note(name string, refused bool, text string) {
	level := abi.LevelInfo
	if refused {
		level = abi.LevelWarn
	}
	l.add(name, "host", level, text)
}

// now is what lines that are added later come behind.
func (l *Logs) now() uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Forget forgets the lines of a plugin that was removed, and those that guests of before have still to add.
func (l *Logs) Forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rings, name)
	l.seq++
	l.gone[name] = l.seq
	if len(l.gone) > LogNames { // of the one that was removed first a request may add lines again
		first := name
		for other, seq := range l.gone {
			if seq < l.gone[first] {
				first = other
			}
		}
		delete(l.gone, first)
	}
}

// addSince is addTried for what was loaded at since, of now.
func (l *Logs) addSince(since uint64, name, trial, of string, level int, text string) {
	if l == nil {
		return
	}
	if len(text) > maxLogText {
		n := maxLogText
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	line := LogLine{Time: time.Now(), Level: levelNames[level], Of: of, Trial: trial, Text: text}
	if line.Level == "" {
		line.Level = levelNames[abi.LevelError]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if since < l.gone[name] {
		return
	}
	l.seq++
	line.Seq = l.seq
	r := l.rings[name]
	if r == nil {
		l.makeRoom()
		r = &ring{}
		l.rings[name] = r
	}
	r.lines, r.bytes = append(r.lines, line), r.bytes+len(text)
	for len(r.lines) > LogLines || r.bytes > LogBytes {
		r.bytes -= len(r.lines[0].Text)
		r.lines[0].Text = "" // the array keeps the line
		r.lines = r.lines[1:]
	}
}

// makeRoom forgets the plugin with the oldest news where there are too many. The lock is held.
func (l *Logs) makeRoom() {
	if len(l.rings) < LogNames {
		return
	}
	oldest, last := "", uint64(0)
	for name, r := range l.rings {
		if n := r.lines[len(r.lines)-1].Seq; oldest == "" || n < last {
			oldest, last = name, n
		}
	}
	delete(l.rings, oldest)
}

// Lines returns the lines of a plugin behind the one whose Seq is after, oldest first. A number that no line has yet is
// of an earlier run of the server: who gives it gets all lines.
func (l *Logs) Lines(name string, after uint64) []LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after > l.seq {
		after = 0
	}
	out := []LogLine{}
	if r := l.rings[name]; r != nil {
		for _, line := range r.lines {
			if line.Seq > after {
				out = append(out, line)
			}
		}
	}
	return out
}
