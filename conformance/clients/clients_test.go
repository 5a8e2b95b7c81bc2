// Package clients drives the server with the clients that its users have. The
// scripts in the folders beside it do the talking; a check is a line of theirs.
package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgi/conformance/live"
)

// key opens the second server.
const key = "secret"

// tokenizer is the folder of the demo model's, for clients that count tokens themselves.
const tokenizer = "../../models/demo/checkpoint"

// textsFolder has models that turn texts into vectors and scores.
const textsFolder = "../../models/testdata/embeddings"

// textModels are the settings of a server with the demo model and some of these.
func textModels(t *testing.T) string {
	t.Helper()
	settings := "[server]\nollama = true\n[[model]]\nname = \"tgi-demo\"\n"
	for _, name := range []string{"roberta", "bert-rank", "distilbert-labels"} {
		at, err := filepath.Abs(filepath.Join(textsFolder, name))
		if err != nil {
			t.Fatal(err)
		}
		settings += fmt.Sprintf("[[model]]\nname = %q\npath = %q\n", name, at)
	}
	return settings
}

// script is a program that prints a line of JSON per check.
type script struct {
	name string
	// packages is the file of pinned versions that it runs with.
	packages string
}

var scripts = []script{
	{"openai_client.py", "python/current.txt"},
	{"hub_client.py", "python/current.txt"},
	{"pages_client.py", "python/current.txt"},
	{"responses_client.py", "python/responses.txt"},
	{"messages_client.py", "python/responses.txt"},
	{"batches_client.py", "python/responses.txt"},
	{"mcp_client.py", "python/responses.txt"},
	{"ollama_client.py", "python/ollama.txt"},
	{"hub_client.py", "python/integrations.txt"},
	{"legacy_client.py", "python/integrations.txt"},
	{"langchain_client.py", "python/integrations.txt"},
	{"images_client.py", "python/integrations.txt"},
	{"llamaindex_client.py", "python/integrations.txt"},
	{"agents_client.py", "python/agents.txt"},
	{"guided_client.py", "python/guided.txt"},
	{"litellm_client.py", "python/litellm.txt"},
	{"embeddings_client.py", "python/embeddings.txt"},
	{"tei_client.py", "python/tei.txt"},
	{"lmeval_client.py", "python/lmeval.txt"},
	{"openai.mjs", "node/package-lock.json"},
	{"inference.mjs", "node/package-lock.json"},
	{"ai.mjs", "node/package-lock.json"},
	{"responses.mjs", "node/package-lock.json"},
	{"ollama.mjs", "node/package-lock.json"},
	{"texts.mjs", "node/package-lock.json"},
	{"main.go", "go/go.sum"},
}

// TestClients installs the clients into a cache folder and runs every script,
// one after the other: some look at the server's figures.
func TestClients(t *testing.T) {
	if os.Getenv("TGI_CLIENTS") == "" {
		t.Skip("real clients are installed from their registries and run where TGI_CLIENTS is set: make clients")
	}
	open := live.Start(t, "[server]\nollama = true\n"+mcpServers(t))
	// of three places one client has two
	keyed := live.Start(t, "[server]\nollama = true\napi_keys = [\""+key+"\"]\n[limits]\nmax_concurrent_requests = 3\n"+
		fmt.Sprintf("[batches]\nfolder = %q\n", t.TempDir()))
	seeing := startSeeing(t)
	texts := live.Start(t, textModels(t))
	for _, s := range scripts {
		name := strings.TrimSuffix(filepath.Base(s.packages), filepath.Ext(s.packages))
		t.Run(s.name+"/"+name, func(t *testing.T) {
			cmd := s.command(t)
			cmd.Env = append(append(os.Environ(), seeing...),
				"TGI_URL="+open.URL, "TGI_KEYED_URL="+keyed.URL, "TGI_KEY="+key, "TGI_TOKENIZER="+tokenizer,
				"TGI_TEXTS_URL="+texts.URL, "TGI_TEXTS="+textsFolder,
				"PYTHONDONTWRITEBYTECODE=1", "HF_TOKEN=", "HF_HUB_DISABLE_IMPLICIT_TOKEN=1",
				"HF_HUB_DISABLE_TELEMETRY=1",
				"no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
			report(t, cmd)
		})
	}
}

// command installs what the script needs, unless it is there, and returns how it is run.
func (s script) command(t *testing.T) *exec.Cmd {
	t.Helper()
	folder := filepath.Dir(s.packages)
	switch folder {
	case "go":
		program := filepath.Join(t.TempDir(), "client")
		// in a module of its own: the server's does not need the client
		build := exec.Command("go", "build", "-o", program, ".")
		build.Dir = folder
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", build, err, out)
		}
		return exec.Command(program)
	case "python":
		home := live.Installed(t, s.packages, func(to string) []*exec.Cmd {
			return []*exec.Cmd{
				exec.Command("python3", "-m", "venv", to),
				exec.Command(filepath.Join(to, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "-r",
					s.packages),
			}
		})
		return exec.Command(filepath.Join(home, "bin", "python"), filepath.Join(folder, s.name))
	}
	home := live.Installed(t, s.packages, func(to string) []*exec.Cmd {
		copyFiles(t, to, folder, "*.json")
		npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
		npm.Dir = to
		return []*exec.Cmd{npm}
	})
	copyFiles(t, home, folder, "*.mjs") // Node looks for packages beside the script
	return exec.Command("node", filepath.Join(home, s.name))
}

func copyFiles(t *testing.T, to, from, pattern string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, from, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// report runs a script and makes each of its checks a test.
func report(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() }).Stop()
	checks := 0
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var line struct{ Check, Error string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Check == "" {
			t.Logf("%s", lines.Bytes())
			continue
		}
		checks++
		t.Run(line.Check, func(t *testing.T) {
			if line.Error != "" {
				t.Error(line.Error)
			}
		})
	}
	if err := cmd.Wait(); err != nil || checks == 0 {
		t.Errorf("%d checks, then %v\n%s", checks, err, &stderr)
	}
}
