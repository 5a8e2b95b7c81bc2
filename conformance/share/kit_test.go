package share

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/conformance/live"
)

// patience bounds each wait for a program that hangs; none takes nearly as long.
const patience = time.Minute

// needs skips the tests unless a registry is at hand.
func needs(t *testing.T) {
	t.Helper()
	if os.Getenv("TGI_REGISTRY") == "" {
		t.Skip("make test-share runs it, with the registry of the distribution project")
	}
}

// world is a folder with its own home, in which programs run.
type world struct {
	t        *testing.T
	dir      string
	registry string // host:port
	storage  string // of the registry
	stop     func() // ends the registry
}

// newWorld starts a registry. With auth it asks for the user me and the password pass.
func newWorld(t *testing.T, auth bool) *world {
	t.Helper()
	needs(t)
	w := &world{t: t, dir: t.TempDir()}
	w.storage = w.path("registry")
	settings := "version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: " + w.storage + "}\n"
	if auth {
		// bcrypt's hash of "pass"
		w.write("htpasswd", "me:$2a$04$wWba2jKZTpXZ/LAEoF9n7O/qJOvikX1jPrueQxfTRLDO2vWUbfvKO\n")
		settings += "auth:\n  htpasswd: {realm: test, path: " + w.path("htpasswd") + "}\n"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.registry = listener.Addr().String()
	if err := listener.Close(); err != nil { // the registry takes no port 0
		t.Fatal(err)
	}
	w.write("registry.yml", settings+"http: {addr: "+w.registry+"}\n")
	var log bytes.Buffer
	cmd := exec.Command(os.Getenv("TGI_REGISTRY"), "serve", w.path("registry.yml"))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		w.stop()
		if t.Failed() {
			t.Logf("the registry's log:\n%s", &log)
		}
	})
	w.until("the registry answers", func() bool {
		resp, err := http.Get("http://" + w.registry + "/v2/")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// run runs a line of a shell's kind in a folder of the world, and returns what it prints. $R is the registry.
func (w *world) run(folder, line string) (string, error) {
	w.t.Helper()
	words := strings.Fields(strings.ReplaceAll(line, "$R", w.registry))
	if words[0] == "tgi" {
		words[0] = live.Program(w.t)
	}
	cmd := exec.CommandContext(w.t.Context(), words[0], words[1:]...)
	cmd.Dir = w.path(folder)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+w.path("data"), "TGI_KEY_PASSWORD=secret",
		"DOCKER_CONFIG="+w.path("docker"), "GOFLAGS=-mod=mod", "GOPROXY=off", "NO_PROXY=127.0.0.1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs a line that succeeds, and checks what it prints.
func (w *world) must(folder, line string, want ...string) {
	w.t.Helper()
	out, err := w.run(folder, line)
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	w.has(line, out, want)
}

// refused runs a line that fails, and checks what it prints.
func (w *world) refused(folder, line string, want ...string) {
	w.t.Helper()
	out, err := w.run(folder, line)
	if err == nil {
		w.t.Fatalf("%s succeeds:\n%s", line, out)
	}
	w.has(line, out, want)
}

func (w *world) has(line, out string, want []string) {
	w.t.Helper()
	for _, text := range want {
		if !strings.Contains(out, strings.ReplaceAll(text, "$R", w.registry)) {
			w.t.Errorf("%s does not say %q:\n%s", line, text, out)
		}
	}
}

// until waits for something to come true.
func (w *world) until(what string, true func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !true(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// ask sends a request and decodes the reply.
func (w *world) ask(url, body string, into any) {
	w.t.Helper()
	resp, err := http.Get(url)
	if body != "" {
		resp, err = http.Post(url, "application/json", strings.NewReader(body))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %d, %v\n%s", url, resp.StatusCode, err, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		w.t.Fatalf("%s: %v\n%s", url, err, text)
	}
}
