// Package served runs examples as their readers do: it builds the server,
// starts it on an example's settings, talks to it over HTTP and stops it.
package served

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// patience bounds each wait for a server that hangs; none takes nearly as long.
const patience = time.Minute

// built is the folder of the program, which the first Start builds and Main removes.
var built struct {
	sync.Once
	folder string
	err    error
}

// Main runs the tests of a package that calls Start, from its TestMain.
func Main(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.folder)
	os.Exit(code)
}

func program() (string, error) {
	built.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "tgi-examples-"); built.err == nil {
			built.err = goBuild(nil, built.folder, "tgi/server/cmd/tgi")
		}
	})
	return filepath.Join(built.folder, "tgi"), built.err
}

// goBuild builds a package into a file or folder.
func goBuild(environment []string, to, pkg string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", to}, flags...), pkg)...)
	cmd.Env = append(os.Environ(), environment...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// GoPlugin builds the package in the folder source as a plugin into the file to.
func GoPlugin(t testing.TB, to, source string) {
	t.Helper()
	err := goBuild([]string{"GOOS=wasip1", "GOARCH=wasm"}, to, "./"+source,
		"-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -buildid=", "-buildvcs=false")
	if err != nil {
		t.Fatal(err)
	}
}

// Folder makes a folder for a server: each file of it by the path of what it
// is a copy of.
func Folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, source := range files {
		b, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Server is a running server.
type Server struct {
	// URL is its address, without a path.
	URL string

	process *exec.Cmd
	log     strings.Builder // complete when ended is closed
	ended   chan struct{}
}

// Start serves the embedded demo model with the settings in folder/tgi.toml
// until the test ends. Without an ONNX Runtime library the test is skipped.
func Start(t testing.TB, folder string) *Server {
	t.Helper()
	if _, err := ort.Locate(""); err != nil {
		t.Skip(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{ended: make(chan struct{})}
	s.process = exec.Command(path, "serve", "--config", filepath.Join(folder, "tgi.toml"), "--hostname", "127.0.0.1", "--port", "0")
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
		t.Fatal("the server ended before it served")
	case <-time.After(patience):
		t.Fatalf("the server does not serve after %s", patience)
	}
	return s
}

// read keeps the log, and sends the address once a line has told it.
func (s *Server) read(log io.Reader, url chan<- string) {
	defer close(s.ended)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		var line struct {
			Msg, URL string
			Status   int
		}
		json.Unmarshal(lines.Bytes(), &line)
		if line.Msg == "serving" {
			url <- line.URL
		}
		if line.Status != http.StatusOK { // hundreds are a request's that went well
			s.log.Write(append(lines.Bytes(), '\n'))
		}
	}
}

// stop asks the server to end as an operator does, and waits.
func (s *Server) stop(t testing.TB) {
	t.Helper()
	s.process.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(patience, func() { s.process.Process.Kill() })
	<-s.ended
	err := s.process.Wait()
	if !timer.Stop() {
		t.Errorf("the server does not end within %s", patience)
	} else if err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if t.Failed() {
		t.Logf("the server's log:\n%s", s.log.String())
	}
}
