package clients

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tgi/conformance/live"
	"tgi/models/vision/visiontest"
)

// TestPrograms: the programs that the playground shows for a request run, with the packages that they name, and print
// the same reply: for the shell, Python and JavaScript, with texts that need quotes and with a picture of 200 KB.
func TestPrograms(t *testing.T) {
	if os.Getenv("TGI_CLIENTS") == "" {
		t.Skip("real clients are installed from their registries and run where TGI_CLIENTS is set: make clients")
	}
	python := script{"openai_client.py", "python/current.txt"}.command(t).Path
	packages := filepath.Dir(script{"openai.mjs", "node/package-lock.json"}.command(t).Args[1])
	pages := filepath.Join(t.TempDir(), "pages")
	if err := os.CopyFS(pages, os.DirFS("../../server/playground/static")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pages, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	seen, err := visiontest.Read("gemma3")
	if err != nil {
		t.Fatal(err)
	}
	reads := live.Start(t, fmt.Sprintf("[model]\npath = %q\nweights = \"fp32\"\n", seen.Dir))
	writes := live.Start(t, "[[plugin]]\nname = \"no-repeat\"\nsource = \"builtin:no-repeat-ngram\"\n")
	said := func(content any) map[string]any {
		return map[string]any{"model": "tgi", "temperature": 0, "max_tokens": 12, "stream": true,
			"messages": []any{map[string]any{"role": "user", "content": content}}}
	}
	quoted := said("It's \"quoted\" $HOME \\n `id` \u00e9\U0001f600\nEND\n'''\"\"\"\nWhat is three plus four?")
	quoted["plugins"] = []any{map[string]any{"name": "no-repeat", "params": map[string]any{"n": 3}}}
	quoted["stop"] = []any{"\n\n", "\t"}
	quoted["response_format"] = map[string]any{"type": "regex", "value": `[a-z' "\\]{5,20}`}
	noise, err := visiontest.Noise(200_000)
	if err != nil {
		t.Fatal(err)
	}
	address := "data:image/png;base64," + base64.StdEncoding.EncodeToString(noise)
	picture := said([]any{map[string]any{"type": "image_url", "image_url": map[string]any{"url": address}},
		map[string]any{"type": "text", "text": "What's this?"}})
	for name, c := range map[string]struct {
		url  string
		body map[string]any
	}{"quotes": {writes.URL, quoted}, "picture": {reads.URL, picture}} {
		programs := shown(t, pages, c.body, c.url)
		file := filepath.Join(packages, "program-"+name+".mjs")
		if err := os.WriteFile(file, []byte(programs["JavaScript"]), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(file) })
		curl := strings.Replace(programs["curl"], "curl -N", "curl -sSfN", 1)
		want := spoken(t, run(t, exec.Command("bash", "-u"), "TGI_API_KEY=none\n"+curl))
		if want == "" {
			t.Errorf("%s: the shell's program prints no reply", name)
		}
		if got := run(t, exec.Command(python, "-"), programs["Python"]); got != want {
			t.Errorf("%s: the program in Python prints %q, the shell's %q", name, got, want)
		}
		if got := run(t, exec.Command("node", file), ""); got != want {
			t.Errorf("%s: the program in JavaScript prints %q, the shell's %q", name, got, want)
		}
	}
}

// shown returns the programs that the page shows for a request.
func shown(t *testing.T, pages string, body map[string]any, url string) (programs map[string]string) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "--input-type=module", "-e", `import {readFileSync} from 'node:fs';
		const {snippets} = await import('`+filepath.ToSlash(filepath.Join(pages, "chat", "snippets.js"))+`');
		console.log(JSON.stringify(snippets(JSON.parse(readFileSync(0, 'utf8')), '`+url+`/')));`)
	if err := json.Unmarshal([]byte(run(t, cmd, string(text))), &programs); err != nil {
		t.Fatal(err)
	}
	return programs
}

// run returns what a program prints that is given a text.
func run(t *testing.T, cmd *exec.Cmd, stdin string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	cmd.Env = append(os.Environ(), "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%.2000s\n%.2000s", cmd, err, &stdout, &stderr)
	}
	return stdout.String()
}

// spoken is the text of a stream.
func spoken(t *testing.T, stream string) (text string) {
	t.Helper()
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: ")
		if data = strings.TrimSpace(data); !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		for _, c := range chunk.Choices {
			text += c.Delta.Content
		}
	}
	return text
}
