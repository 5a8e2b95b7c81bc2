// Package serving runs tgi as a process of its own and asks it over HTTP, for programs that are no tests: it starts the
// server on a free port of the loopback address, reads its log, and ends it by a signal.
//
// Its caller is the report of conformance/cuda. A server has one goroutine, which reads its log and ends with it.
package serving

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// endWithin bounds the end of a server that is told to stop.
	endWithin = 30 * time.Second
	// keptLog is how much of a server's log is kept for an error.
	keptLog = 4 << 10
)

// Server is a running server.
type Server struct {
	// URL is its address, without a path.
	URL string

	process *exec.Cmd
	folder  string
	ended   chan struct{} // closed when process has ended, with err
	err     error

	mu  sync.Mutex
	log []byte // the end of it
}

// Start serves with settings that are the text of a tgi.toml, and flags. The server is killed when ctx ends; who starts
// one must Stop it.
func Start(ctx context.Context, program, settings string, flags ...string) (*Server, error) {
	folder, err := os.MkdirTemp("", "tgi-serving-")
	if err != nil {
		return nil, err
	}
	s := &Server{folder: folder, ended: make(chan struct{})}
	file := filepath.Join(folder, "tgi.toml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	s.process = exec.CommandContext(ctx, program, append([]string{"serve", "--config", file, "--hostname", "127.0.0.1",
		"--port", "0"}, flags...)...)
	out, err := s.process.StderrPipe()
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	url := make(chan string, 1)
	go s.read(out, url)
	select {
	case s.URL = <-url:
		return s, nil
	case <-s.ended:
		err := fmt.Errorf("the server ended before it served: %w: %s", errOr(s.err, ctx), s.Log())
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
}

// errOr returns why a process ended, though it may have ended well.
func errOr(err error, ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return errors.New("without an error")
	}
	return err
}

// read keeps the end of the log, and sends the address once a line contains it.
func (s *Server) read(log io.Reader, url chan<- string) {
	lines := bufio.NewReader(log)
	for {
		text, err := lines.ReadString('\n')
		var line struct{ Msg, URL string }
		if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &line) == nil && line.Msg == "serving" {
			url <- line.URL
		}
		s.mu.Lock()
		s.log = append(s.log, text...)
		s.log = s.log[max(0, len(s.log)-keptLog):]
		s.mu.Unlock()
		if err != nil {
			break
		}
	}
	s.err = s.process.Wait()
	close(s.ended)
}

// Log returns the end of the server's log.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.log)
}

// Stop ends the server by a signal and waits for it. Another end than that of a server whose requests are done, with
// exit code 0, is an error. It may be called again.
func (s *Server) Stop(signal os.Signal) error {
	defer os.RemoveAll(s.folder)
	select {
	case <-s.ended:
		return s.end()
	default:
	}
	if err := s.process.Process.Signal(signal); err != nil {
		return err
	}
	hung := time.AfterFunc(endWithin, func() { _ = s.process.Process.Kill() })
	<-s.ended
	if !hung.Stop() {
		return fmt.Errorf("the server did not end within %s of %s: %s", endWithin, signal, s.Log())
	}
	return s.end()
}

func (s *Server) end() error {
	if s.err != nil {
		return fmt.Errorf("the server ended with %w: %s", s.err, s.Log())
	}
	return nil
}
