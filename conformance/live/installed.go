package live

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Installed returns the folder that has the packages of a file in it, and runs
// the commands that install returns when it is not there yet.
func Installed(t testing.TB, packages string, install func(to string) []*exec.Cmd) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(packages)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	to := filepath.Join(cache, "tgi", "clients", strings.ReplaceAll(packages, "/", "-")+"-"+hex.EncodeToString(sum[:6]))
	done := filepath.Join(to, "installed")
	if _, err := os.Stat(done); err == nil {
		return to
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range install(to) {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
