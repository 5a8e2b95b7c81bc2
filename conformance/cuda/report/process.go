package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// grace is how long a part may take to say what it left out when its time is over.
var grace = 10 * time.Second

// Process returns a Runner that starts a program for each part: with args, and the flags --part, --time in seconds and
// --result, a file to which the program writes its Result with Save.
func Process(program string, args ...string) Runner {
	return func(ctx context.Context, w io.Writer, part string) Result {
		result, err := process(ctx, w, part, program, args)
		if err != nil {
			fmt.Fprintf(w, "\n**Broken off: %v**\n", err)
			return Result{Checks: 1, Failed: []string{fmt.Sprintf("%s: %v", part, err)}}
		}
		return result
	}
}

func process(ctx context.Context, w io.Writer, part, program string, args []string) (r Result, err error) {
	dir, err := os.MkdirTemp("", "tgi-cuda-report-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "result.json")
	deadline, _ := ctx.Deadline()
	left := max(time.Until(deadline), time.Second)
	hard, stop := context.WithTimeout(context.WithoutCancel(ctx), left+grace)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if ctx.Err() == context.Canceled { //nolint:errorlint // a context's own
			stop()
		}
	})()
	cmd := exec.CommandContext(hard, program, append(args[:len(args):len(args)], "--part", part,
		"--time", strconv.FormatFloat(left.Seconds(), 'f', 1, 64), "--result", file)...)
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	cmd.WaitDelay = time.Second
	// A server that the part has started would hold the device's memory when the part is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	ended := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left of it, usually nothing
	}
	text, err := os.ReadFile(file)
	switch {
	case hard.Err() == context.DeadlineExceeded: //nolint:errorlint // a context's own
		return r, fmt.Errorf("it hung, and was ended %.0f s after its time", grace.Seconds())
	case err != nil && ended != nil:
		return r, fmt.Errorf("its process ended with: %w", ended)
	case err != nil:
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// Save writes the result to the file of --result.
func (r Result) Save(file string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
