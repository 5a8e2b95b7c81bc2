package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tgi/models/hf"
)

// reference is the folder of reference data.
const reference = "models/testdata/golden"

// checkpoints makes small checkpoints for the device where no others are named, and returns the flags that name them
// for a part: of those of the reference data few have heads of a size that the device takes. done removes them.
func checkpoints(ctx context.Context, f flags) (args []string, done func()) {
	done = func() {}
	golden := func(why string) []string {
		return []string{"--golden", reference, "--note",
			fmt.Sprintf("Checkpoints: those of %s that fit; others were not made: %s", reference, why)}
	}
	switch {
	case f.golden != "":
		return nil, done
	case f.dry:
		return golden("it is a dry run"), done
	case !slices.Contains(strings.Split(f.parts, ","), "logits"):
		return golden("the part logits, which compares most of them, is not asked for"), done
	}
	dir, err := os.MkdirTemp("", "tgi-cuda-checkpoints-")
	if err != nil {
		return golden(err.Error()), done
	}
	done = func() { os.RemoveAll(dir) }
	ctx, stop := context.WithTimeout(ctx, f.budget/makingShare)
	defer stop()
	cmd := exec.CommandContext(ctx, f.python, f.making, dir, "--golden", reference)
	cmd.WaitDelay = time.Second
	var wrong strings.Builder
	cmd.Stderr = &wrong
	said, err := cmd.Output()
	if err != nil {
		return golden(fmt.Sprintf("%s: %v, %s", f.making, err, last(wrong.String()))), done
	}
	if made, err := filepath.Glob(filepath.Join(dir, "*", hf.ConfigFile)); err != nil || len(made) == 0 {
		return golden(fmt.Sprintf("%s made none: %s", f.making, said)), done
	}
	return []string{"--golden", dir, "--note", "Checkpoints: " + string(said)}, done
}

// makingShare is the part of the time, one of so many, in which checkpoints must be made.
const makingShare = 4

// last is the last line of a text.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
