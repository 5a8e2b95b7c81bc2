package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// actAsServer has the test's own program be the server that a test starts, if it is started as one.
func actAsServer() {
	port := ""
	for i, a := range os.Args {
		if a == "--port" && i+1 < len(os.Args) {
			port = os.Args[i+1]
		}
	}
	if len(os.Args) < 2 || port == "" {
		return
	}
	switch os.Args[1] {
	case "serves":
		if os.Getenv("API_KEY") != "" {
			fmt.Fprintln(os.Stderr, "the caller's settings came along")
			os.Exit(1)
		}
		begin := time.Now()
		held := make([]byte, 64<<20)
		for i := range held {
			held[i] = 1
		}
		http.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
			if time.Since(begin) < 200*time.Millisecond {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		http.HandleFunc("POST /generate_stream", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(100 * time.Millisecond)
			fmt.Fprintf(w, "data: %s\n\n", final(int(held[7]), 5))
		})
		go func() { _ = http.ListenAndServe("127.0.0.1:"+port, nil) }()
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGTERM)
		<-told
		os.Exit(0)
	case "fails":
		fmt.Fprintln(os.Stderr, "no such model")
		os.Exit(1)
	}
}

// TestStart: variables that would be settings of the server do not reach it.
func TestStart(t *testing.T) {
	t.Setenv("API_KEY", "x")
	var told []string
	r, err := Start(t.Context(), StartOptions{Program: os.Args[0], Args: []string{"serves"},
		Progress: func(s string) { told = append(told, s) }})
	if err != nil {
		t.Fatal(err)
	}
	if r.Starts != starts || len(told) != starts+1 || r.Ready.Count != starts || r.FirstToken.Count != starts {
		t.Errorf("%+v, %q", r, told)
	}
	if r.Ready.P50 < 200 || r.FirstToken.P50 < r.Ready.P50+100 {
		t.Errorf("ready after %v ms, a first token after %v", r.Ready.P50, r.FirstToken.P50)
	}
	if r.Peak < 64<<20 {
		t.Errorf("a peak of %d bytes", r.Peak)
	}
	_, err = os.Stat("/proc/self/status")
	if err == nil && (r.Memory < 64<<20 || r.Mapped == 0 || r.Mapped > r.Memory) {
		t.Errorf("%d bytes, %d mapped", r.Memory, r.Mapped)
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "5 starts") {
		t.Error(err, table.String())
	}
}

// TestStartInterrupted: a server that ends because it was told to did not fail.
func TestStartInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := Start(ctx, StartOptions{Program: os.Args[0], Args: []string{"serves"}, Progress: func(string) {
		time.AfterFunc(250*time.Millisecond, stop) // while it computes its first token
	}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestStartFails: what the program said is in the error.
func TestStartFails(t *testing.T) {
	_, err := Start(t.Context(), StartOptions{Program: os.Args[0], Args: []string{"fails"}, Progress: func(string) {}})
	if err == nil || !strings.Contains(err.Error(), "no such model") {
		t.Error(err)
	}
	if _, err = Start(t.Context(), StartOptions{Program: "/nowhere/at/all", Progress: func(string) {}}); err == nil {
		t.Error("a program that is not there was started")
	}
}
