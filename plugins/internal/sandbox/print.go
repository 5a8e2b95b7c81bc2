package sandbox

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"
)

// What is kept of a guest's output. The price is lineBytes * tailLines per instance that prints.
const (
	lineBytes = 512 // longer lines are cut into several
	tailLines = 16  // kept for faults
	lineFuel  = 600 // what a line costs the guest, however short
)

// printer keeps the last lines that a guest printed, and passes whole lines on.
type printer struct {
	part []byte
	tail []string
}

// write takes output in any split; out is called once for each whole line.
func (p *printer) write(b []byte, out func(line string)) {
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		n := len(b)
		if end >= 0 {
			n = end
		}
		n = min(n, lineBytes-len(p.part))
		p.part = append(p.part, b[:n]...)
		b = b[n:]
		if len(b) > 0 && b[0] == '\n' {
			b = b[1:]
		} else if len(p.part) < lineBytes {
			return
		}
		p.line(out)
	}
}

// line ends the line under way.
func (p *printer) line(out func(line string)) {
	s := strings.ToValidUTF8(string(p.part), "\uFFFD")
	p.part = p.part[:0]
	if len(p.tail) == tailLines {
		oldest := 0
		if isPanicLine(p.tail[0]) {
			oldest = 1 // the stacks that follow a Go guest's panic must not push it out
		}
		p.tail = slices.Delete(p.tail, oldest, oldest+1)
	}
	p.tail = append(p.tail, s)
	out(s)
}

// isPanicLine reports whether a line is the text of a Go guest's panic.
func isPanicLine(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// lines returns the last lines, the unfinished one included.
func (p *printer) lines() []string {
	all := append([]string(nil), p.tail...)
	if len(p.part) > 0 {
		all = append(all, strings.ToValidUTF8(string(p.part), "\uFFFD"))
	}
	return all
}

func (p *printer) reset() { p.part, p.tail = p.part[:0], p.tail[:0] }

// Line is one line of a guest's output.
type Line struct {
	Module  string
	Level   int // of the guest's log call; LevelStdout and LevelStderr for what it wrote there
	Text    string
	Dropped int // lines of this module left out before, which no line had told yet
}

// Levels of lines written through WASI.
const (
	LevelStdout = -1
	LevelStderr = -2
)

// A module may print LogBurst lines at once and LogPerSecond in the long run; others are counted and dropped. (The
// last lines of an instance reach its fault either way.) How many those are is said at once, and then every
// noticeEvery: else there would be as many notices as lines.
const (
	LogBurst     = 100
	LogPerSecond = 20
	noticeEvery  = 10 * time.Second
)

// limiter is a token bucket over the lines of a module, all instances together.
type limiter struct {
	mu      sync.Mutex
	tokens  float64
	last    time.Time
	dropped int
	noticed time.Time // when dropped was said last
}

// allow says whether a line may pass at the time now, and, unless that was said lately, how many were dropped before
// it.
func (l *limiter) allow(now time.Time) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		l.tokens = LogBurst
	} else {
		l.tokens = min(LogBurst, l.tokens+now.Sub(l.last).Seconds()*LogPerSecond)
	}
	l.last = now
	if l.tokens < 1 {
		l.dropped++
		return 0, false
	}
	l.tokens--
	if l.dropped == 0 || !l.noticed.IsZero() && now.Sub(l.noticed) < noticeEvery {
		return 0, true
	}
	dropped, l.dropped, l.noticed = l.dropped, 0, now
	return dropped, true
}

// Print adds a guest's log line (any bytes, cut at line breaks and every 512 bytes).
func (in *Instance) Print(level int, text []byte) {
	in.write(level, text)
	if len(in.printed.part) > 0 {
		in.printed.line(func(s string) { in.pass(level, s) })
	}
}

// write adds output that may end within a line.
func (in *Instance) write(level int, b []byte) {
	in.said = true
	in.printed.write(b, func(s string) { in.pass(level, s) })
}

func (in *Instance) pass(level int, s string) {
	in.Charge(lineFuel)
	m := in.module
	if m.log == nil {
		return
	}
	if dropped, ok := m.lines.allow(time.Now()); ok {
		m.log(Line{Module: m.name, Level: level, Text: s, Dropped: dropped})
	}
}
