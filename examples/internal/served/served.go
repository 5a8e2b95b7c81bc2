// Package served runs examples as their readers do: it builds the server,
// starts it on an example's settings, talks to it over HTTP and stops it.
package served

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tgi/conformance/live"
)

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
type Server struct{ *live.Server }

// Start serves the embedded demo model with the settings in folder/tgi.toml
// until the test ends. Without an ONNX Runtime library the test is skipped.
func Start(t testing.TB, folder string) *Server {
	t.Helper()
	return &Server{live.Serve(t, filepath.Join(folder, "tgi.toml"))}
}
