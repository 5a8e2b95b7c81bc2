//go:build unix

package scratch

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// age makes a folder, and the file in it, look as old as d.
func age(t *testing.T, dir string, d time.Duration) {
	t.Helper()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir} {
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-d)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAbandoned(t *testing.T) {
	dir := t.TempDir()
	age(t, dir, time.Second)
	if Abandoned(dir) {
		t.Error("a folder of a second ago")
	}
	age(t, dir, time.Hour)
	if !Abandoned(dir) {
		t.Error("a folder of an hour ago, unclaimed")
	}
	release := Claim(dir)
	age(t, dir, 48*time.Hour)
	if Abandoned(dir) {
		t.Error("a folder with an owner")
	}
	release()
	if !Abandoned(dir) {
		t.Error("a folder whose owner is done")
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if Abandoned(dir) {
		t.Error("a folder with a file of now")
	}
	if Abandoned(filepath.Join(dir, "nothing")) {
		t.Error("no folder")
	}
}

// TestKilled: the claim of another process holds while it lives, and no longer,
// though it is killed.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	if at := os.Getenv("SCRATCH_CLAIM"); at != "" {
		Claim(at)
		os.Stdout.WriteString("claimed\n")
		time.Sleep(time.Minute)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "SCRATCH_CLAIM="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "claimed\n" {
		t.Fatalf("%q, %v", line, err)
	}
	age(t, dir, 48*time.Hour)
	if Abandoned(dir) {
		t.Error("the folder of a process that runs")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !Abandoned(dir) {
		t.Error("the folder of a process that was killed")
	}
}
