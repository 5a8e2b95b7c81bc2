// Package live runs the server as its users do, for tests from outside: it builds the program, starts it on the
// embedded demo model with the settings that a test gives, and ends it.
package live

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgi/runtime/ort"
)

// timeout bounds each wait for a server that hangs; none takes nearly as long.
const timeout = time.Minute

// program builds the server once a test binary and returns its path. All test
// binaries share one file, bin/test/tgi of the tree, so that only the first of
// them links it: for the others `go build` finds it up to date.
var program = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	lock, err := os.Create(filepath.Join(folder, "lock"))
	if err != nil {
		return "", err
	}
	defer lock.Close() // which unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	path := filepath.Join(folder, "tgi")
	if out, err := exec.Command("go", "build", "-o", path, "tgi/server/cmd/tgi").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// moduleRoot is the folder of go.mod above the test's own.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the test's folder")
		}
		dir = parent
	}
}

// Program returns the path of the program, which it builds at the first call.
func Program(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Server is a running server. It may be asked from several goroutines, and
// ended from one.
type Server struct {
	// URL is its address, without a path.
	URL string

	process *exec.Cmd
	ended   chan struct{}
	over    bool            // it was ended before the test was
	errors  strings.Builder // log lines that are warnings or worse; complete when ended is closed
	dump    strings.Builder // lines that are no log; complete when ended is closed
}

// Start is Serve with settings that are the text of a tgi.toml.
func Start(t testing.TB, settings string) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tgi.toml")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	return Serve(t, file)
}

// Serve serves the demo model with the settings in a file until the test ends.
// Without an ONNX Runtime library the test fails.
func Serve(t testing.TB, file string) *Server {
	t.Helper()
	if _, err := ort.Locate(""); err != nil {
		t.Fatalf("%v (`make ort` fetches it)", err)
	}
	path := Program(t)
	s := &Server{ended: make(chan struct{})}
	s.process = exec.Command(path, "serve", "--config", file, "--hostname", "127.0.0.1", "--port", "0")
	s.process.Env = append(os.Environ(), "GOTRACEBACK=all")
	log, err := s.process.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	url := make(chan string, 1)
	go s.read(log, url)
	t.Cleanup(func() { s.stop(t) })
	select {
	case s.URL = <-url:
	case <-s.ended:
		t.Fatalf("the server ended before it served:\n%s%s", &s.errors, &s.dump)
	case <-time.After(timeout):
		t.Fatalf("the server does not serve after %s", timeout)
	}
	return s
}

// PID is the server's process.
func (s *Server) PID() int { return s.process.Process.Pid }

// read sorts the server's output, and sends the address once a line contains it.
func (s *Server) read(log io.Reader, url chan<- string) {
	defer close(s.ended)
	lines := bufio.NewReader(log)
	for {
		text, err := lines.ReadString('\n')
		var line struct{ Msg, URL, Level string }
		switch {
		case !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &line) != nil:
			s.dump.WriteString(text)
		case line.Msg == "serving":
			url <- line.URL
		case line.Level != "INFO":
			s.errors.WriteString(text)
		}
		if err != nil {
			return
		}
	}
}

// stop asks the server to end as an operator does, and waits.
func (s *Server) stop(t testing.TB) {
	t.Helper()
	if s.over {
		return
	}
	s.over = true
	s.process.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(timeout, func() { s.process.Process.Kill() })
	<-s.ended
	err := s.process.Wait()
	if !timer.Stop() {
		t.Errorf("the server does not end within %s", timeout)
	} else if err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if t.Failed() {
		t.Logf("the server's log:\n%s%s", &s.errors, &s.dump)
	}
}

// Stop asks the server to end, as an operator does, and waits until it has.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.stop(t)
}

// Kill ends the server without letting it know.
func (s *Server) Kill() {
	s.over = true
	s.process.Process.Kill()
	<-s.ended
	s.process.Wait()
}

// Goroutines ends the server with SIGQUIT and returns the stacks of all its
// goroutines, as the Go runtime prints them. Without goroutine 0: that is the
// scheduler's own stack, printed only if it was the signal's thread that ran it.
func (s *Server) Goroutines(t testing.TB) []string {
	t.Helper()
	s.over = true
	s.process.Process.Signal(syscall.SIGQUIT)
	timer := time.AfterFunc(timeout, func() { s.process.Process.Kill() })
	defer timer.Stop()
	<-s.ended
	s.process.Wait()
	var stacks []string
	for part := range strings.SplitSeq(s.dump.String(), "\n\n") {
		if part = strings.TrimSpace(part); strings.HasPrefix(part, "goroutine ") &&
			!strings.HasPrefix(part, "goroutine 0 ") {
			stacks = append(stacks, part)
		}
	}
	if len(stacks) == 0 {
		t.Fatalf("no goroutines in what the server printed:\n%s", &s.dump)
	}
	return stacks
}
