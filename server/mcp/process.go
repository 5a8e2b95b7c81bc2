package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"tgi/server/config"
)

// inherited are the variables of this process that those of servers have, too: no other, since they hold keys.
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// How long a process has to end by itself when its input is closed, and after it was asked to.
const (
	endAlone = time.Second
	endAsked = time.Second
)

// process is a server that runs as a child. All that it starts is in its group, and ends with it.
type process struct {
	in   io.WriteCloser
	out  io.ReadCloser
	tail *tail
	// over is closed when it has ended, and its group with it.
	over chan struct{}
	err  error // why, once over is closed

	leader *os.Process
	once   sync.Once
}

// start starts the command of a server.
func start(c config.MCP, log *slog.Logger) (*process, error) {
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Dir = c.Folder
	cmd.Env = []string{}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	p := &process{tail: newTail(log), over: make(chan struct{})}
	// Pipes of our own: cmd's would be closed by Wait, while the last result is still being read.
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inRead, outWrite, p.tail
	cmd.WaitDelay = endAsked // a grandchild may hold the pipe of the log open
	p.in, p.out = inWrite, outRead
	group(cmd)
	started := make(chan error)
	go p.run(cmd, started)
	err = <-started
	_, _ = inRead.Close(), outWrite.Close() // the child has them
	if err != nil {
		_, _ = inWrite.Close(), outRead.Close()
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for its end, on a thread of its own: where the system ends a child with its parent
// it means the thread that started it.
func (p *process) run(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.over)
	if err := cmd.Start(); err != nil {
		p.err = err
		started <- err
		return
	}
	p.leader = cmd.Process
	started <- nil
	err := cmd.Wait()
	endGroup(cmd.Process.Pid) // what it left behind
	if p.err = err; err == nil {
		p.err = errors.New("it exited")
	}
}

// close ends the process and all of its group, and waits for that.
func (p *process) close() {
	p.once.Do(func() {
		_ = p.in.Close()
		if !p.ends(endAlone) {
			askGroup(p.leader.Pid)
			if !p.ends(endAsked) {
				endGroup(p.leader.Pid)
			}
		}
	})
	<-p.over
	_ = p.out.Close()
}

// ends reports whether the process ends within d.
func (p *process) ends(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	select {
	case <-p.over:
		return true
	case <-ctx.Done():
		return false
	}
}

// Bounds of what a server writes to its log.
const (
	maxLine  = 1 << 10 // bytes of a line
	maxLines = 60      // per minute
)

// tail takes what a server writes to its standard error: lines go to the log, as many as it may have, and the last is
// kept. The rest is thrown away.
type tail struct {
	log *slog.Logger

	mu    sync.Mutex
	line  []byte
	final string
	since time.Time
	lines int // since then
}

func newTail(log *slog.Logger) *tail { return &tail{log: log} }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		part, _, ended := bytes.Cut(b[:min(len(b), maxLine)], []byte("\n"))
		t.line = append(t.line, part[:min(len(part), maxLine-len(t.line))]...)
		b = b[len(part):]
		if ended {
			b = b[1:]
			t.end()
		}
	}
	return n, nil
}

// end takes a line that is complete.
func (t *tail) end() {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.line), "\ufffd"))
	t.line = t.line[:0]
	if text == "" {
		return
	}
	t.final = text
	if now := time.Now(); now.Sub(t.since) > time.Minute {
		t.since, t.lines = now, 0
	}
	switch t.lines++; {
	case t.lines < maxLines:
		t.log.Info("an MCP server says", "text", text)
	case t.lines == maxLines:
		t.log.Warn("an MCP server says too much: the rest of this minute is left out")
	}
}

// last returns the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) > 0 {
		t.end()
	}
	return t.final
}
