package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Started is what the starts of a server came to.
type Started struct {
	// Starts were measured, after one that was not: it may have built the model.
	Starts int `json:"starts"`
	// Ready runs from the start of the process until it says that it is ready, FirstToken until the client has the
	// first token of a request that it sends then.
	Ready      Summary `json:"ready_ms"`
	FirstToken Summary `json:"first_token_ms"`
	// Memory is what the process holds in memory after that token, in bytes, and Mapped the part of it that is files. 0
	// where the system does not tell.
	Memory int64 `json:"memory_bytes"`
	Mapped int64 `json:"mapped_bytes"`
	// Peak is the most that it held until its end.
	Peak int64 `json:"peak_bytes"`
}

const (
	// starts are measured.
	starts = 5
	// startTimeout bounds each of them, startPoll is how often the server is asked whether it is ready.
	startTimeout = 10 * time.Minute
	startPoll    = 2 * time.Millisecond
	// endTimeout bounds how long a server takes to end when it is told to.
	endTimeout = 30 * time.Second
)

// StartOptions say what to start.
type StartOptions struct {
	// Program and Args are the server; without them this program's serve with the other options.
	Program string
	Args    []string
	// Model is a folder or a file, "" the demo model, for which Weights do not count.
	Model, Weights, Device, Graphs string
	Threads                        int
	// Progress is told what goes on.
	Progress func(string)
}

// command is the program and its arguments. Its settings are these and those of a file in folder: environment lets none
// of the caller's through.
func (o StartOptions) command(folder string) ([]string, error) {
	if o.Program != "" {
		return append([]string{o.Program}, o.Args...), nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(folder, "tgi.toml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "[runtime]\nthreads = %d\n", o.Threads), 0o600); err != nil {
		return nil, err
	}
	args := []string{program, "serve", "--config", settings, "--hostname", "127.0.0.1", "--device", o.Device,
		"--cuda-graphs", o.Graphs}
	if o.Model != "" {
		args = append(args, "--model-id", o.Model, "--weights", o.Weights)
	}
	return args, nil
}

// environment are the caller's variables that say where things are and what the machine is to be used for. Others may
// be settings of the server, such as keys, with which it would be another one than the options describe.
func environment() (kept []string) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "TGI_ORT_LIB", "TGI_CACHE",
			"TGI_ATTENTION", "TGI_PRODUCT":
			kept = append(kept, v)
		default:
			if strings.HasPrefix(name, "XDG_") {
				kept = append(kept, v)
			}
		}
	}
	return kept
}

// Start starts a server again and again, with a port of the loopback address as its last argument, and measures the
// time until its first token.
func Start(ctx context.Context, o StartOptions) (*Started, error) {
	folder, err := os.MkdirTemp("", "tgi-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	command, err := o.command(folder)
	if err != nil {
		return nil, err
	}
	rep := &Started{Starts: starts}
	var ready, first []time.Duration
	for i := range starts + 1 {
		o.Progress(fmt.Sprintf("start %d of %d", i+1, starts+1))
		s, err := startOnce(ctx, command)
		if ctx.Err() != nil { // then the server ended because it was told to
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if i == 0 {
			continue
		}
		ready, first = append(ready, s.ready), append(first, s.first)
		if s.memory >= rep.Memory {
			rep.Memory, rep.Mapped = s.memory, s.mapped
		}
		rep.Peak = max(rep.Peak, s.peak)
	}
	rep.Ready, rep.FirstToken = summarize(ready), summarize(first)
	return rep, nil
}

// oneStart is what one start came to.
type oneStart struct {
	ready, first         time.Duration
	memory, mapped, peak int64
}

// startOnce starts the server, asks it for a token, and ends it.
func startOnce(ctx context.Context, command []string) (s oneStart, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return s, err
	}
	var said lastBytes
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], "--port", port)...)
	cmd.Env, cmd.Stderr = environment(), &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endTimeout
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	err = func() error {
		c := newClient(Options{URL: "http://127.0.0.1:" + port, Timeout: startTimeout})
		defer c.http.CloseIdleConnections()
		if err := c.awaitReady(ctx, gone); err != nil {
			return err
		}
		s.ready = time.Since(begin)
		o := c.generate(ctx, time.Now(), "What is three plus four?", 1)
		if len(o.tokens) == 0 {
			return fmt.Errorf("no first token: %s", withReason(o.failure, o.said))
		}
		s.first = o.tokens[0].Sub(begin)
		s.memory, s.mapped = memoryOf(cmd.Process.Pid)
		return nil
	}()
	if errors.Is(err, errGone) {
		return s, fmt.Errorf("%s ended instead of serving: %s", command[0], said.text())
	}
	cancel() // which ends the process
	<-gone
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.peak = int64(u.Maxrss)
		if runtime.GOOS != "darwin" { // where it counts bytes
			s.peak <<= 10
		}
	}
	return s, err
}

// errGone says that the process ended.
var errGone = errors.New("the server ended")

// awaitReady asks the server until it is ready.
func (c *client) awaitReady(ctx context.Context, gone <-chan error) error {
	for {
		if resp, err := c.send(ctx, http.MethodGet, "/health", nil); err == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-gone:
			return errGone
		case <-ctx.Done():
			return fmt.Errorf("the server was not ready: %w", ctx.Err())
		case <-time.After(startPoll):
		}
	}
}

// freePort returns a port of the loopback address that nobody uses.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	mu   sync.Mutex
	kept []byte
}

// keptBytes is how much lastBytes keeps.
const keptBytes = 2000

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p...)
	l.kept = l.kept[max(0, len(l.kept)-keptBytes):]
	return len(p), nil
}

func (l *lastBytes) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.kept))
}

// WriteTable writes the report for people.
func (r *Started) WriteTable(w io.Writer) error {
	var b strings.Builder
	writeColumns(&b, [][]string{
		{"ms since the process started", "p50", "most"},
		{"ready", number(r.Ready.P50), number(r.Ready.Max)},
		{"first token", number(r.FirstToken.P50), number(r.FirstToken.Max)},
	})
	fmt.Fprintf(&b, "\n%d starts; ", r.Starts)
	if r.Memory > 0 {
		fmt.Fprintf(&b, "%d MB of memory after the first token, %d MB of it mapped files; ", r.Memory/1e6, r.Mapped/1e6)
	}
	fmt.Fprintf(&b, "at most %d MB\n", r.Peak/1e6)
	_, err := io.WriteString(w, b.String())
	return err
}
