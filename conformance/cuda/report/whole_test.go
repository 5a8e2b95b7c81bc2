package report

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWhole: time that a part leaves is the others', a part that fails does not end the report, what the time is too
// short for is left out, and all of it is in the summary.
func TestWhole(t *testing.T) {
	var ran []string
	most := map[string]time.Duration{}
	var text strings.Builder
	result, err := Whole(t.Context(), &text, []string{"logits", "device", "speed"}, 72*time.Second,
		func(ctx context.Context, _ io.Writer, part string) Result {
			deadline, _ := ctx.Deadline()
			ran, most[part] = append(ran, part), time.Until(deadline).Round(time.Second)
			if part == "logits" {
				return Result{Checks: 3, Failed: []string{"a bound"}, Cut: []string{"the rest"}}
			}
			return Result{Checks: 1}
		})
	if err != nil || strings.Join(ran, " ") != "device logits speed" || result.Checks != 5 {
		t.Errorf("%v %+v %v", ran, result, err)
	}
	if most["device"] != 2*time.Second || most["logits"] != 31*time.Second || most["speed"] != 72*time.Second {
		t.Errorf("times %v", most)
	}
	for _, want := range []string{"## Speed", "5 checks, 1 failed, 1 cut", "- FAILED a bound", "- cut the rest"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing\n%s", want, text.String())
		}
	}
}

// TestWholeCuts: without time, and without a device, parts are not begun.
func TestWholeCuts(t *testing.T) {
	result, _ := Whole(t.Context(), io.Discard, Parts(), time.Second, func(context.Context, io.Writer, string) Result {
		t.Error("a part was begun")
		return Result{}
	})
	if len(result.Cut) != len(Parts()) {
		t.Errorf("%+v", result)
	}
	runs := 0
	result, _ = Whole(t.Context(), io.Discard, Parts(), time.Hour, func(context.Context, io.Writer, string) Result {
		runs++
		return Result{Failed: []string{"no device"}}
	})
	if runs != 1 || len(result.Failed) != 1 {
		t.Errorf("%d parts, %+v", runs, result)
	}
}

// TestProcess: how the process of a part may end.
func TestProcess(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"well", `echo text; echo '{"Checks":2,"Failed":["x"]}' > "$6"`, "x"},
		{"by a signal", `kill -SEGV $$`, "its process ended with: signal: segmentation fault"},
		{"without a result", `exit 0`, "result.json: no such file"},
		{"with a result, badly", `echo '{"Checks":2,"Failed":["x"]}' > "$6"; exit 1`, "x"},
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		var text strings.Builder
		result := Process("sh", "-c", c.script, "sh")(ctx, &text, "speed")
		stop()
		if len(result.Failed) != 1 || !strings.Contains(result.Failed[0], c.want) {
			t.Errorf("%s: %+v\n%s", c.name, result, text.String())
		}
	}
}

// TestProcessHangs: a part that does not end is ended, and what it has started with it.
func TestProcessHangs(t *testing.T) {
	grace = 100 * time.Millisecond
	defer func() { grace = 10 * time.Second }()
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	began := time.Now()
	file := filepath.Join(t.TempDir(), "child")
	script := "sleep 300 >/dev/null 2>&1 & echo $! > " + file + "; exec sleep 60"
	result := Process("sh", "-c", script, "sh")(ctx, io.Discard, "speed")
	text, err := os.ReadFile(file)
	child, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || child == 0 {
		t.Fatal(err, string(text))
	}
	for syscall.Kill(child, 0) == nil && time.Since(began) < 30*time.Second { // until its end is collected
		if state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); strings.Contains(string(state), ") Z") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if len(result.Failed) != 1 || !strings.Contains(result.Failed[0], "it hung") || time.Since(began) > 30*time.Second {
		t.Errorf("%+v after %s", result, time.Since(began))
	}
}
