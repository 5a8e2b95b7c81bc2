package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// sampleEnv is llm-inference's env-samples/.env.auto.example, with values that
// are not the defaults here.
const sampleEnv = `SERVER_HOST=127.0.0.1
SERVER_PORT=6060
LOG_LEVEL=debug
MAX_CACHE_SIZE=100
MAX_CACHE_TTL=60
MODEL_PATH=/usr/model
USE_LLAMA_CPP=true
LLAMA_CPP_MAX_CONTEXT=2048
LLAMA_CPP_BATCH_TOKENS=2048
LLAMA_RAM_CACHE_MB=512
ENABLE_CUDA=true
DEVICE_MAP_AUTO=true
TARGET_GPU_INDEX=1
LOAD_IN_8BIT=true
LOAD_IN_4BIT=true
SPACE_TOKEN_CHAR=▁
MODEL_SEED=42
MODEL_DEFAULT_NUM_BEAMS=2
MODEL_LOADER=Other
MODEL_DEFAULT_DO_SAMPLE=false
MODEL_DEFAULT_TEMPERATURE=0.5
MODEL_DEFAULT_TOP_P=0.25
MODEL_DEFAULT_TOP_K=3
MODEL_DEFAULT_MAX_NEW_TOKENS=100
MODEL_DEFAULT_REPETITION_PENALTY=1.5
MODEL_DEFAULT_LENGTH_PENALTY=2.0`

func TestGenerateAPIEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	environ := map[string]string{}
	for line := range strings.Lines(sampleEnv) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		environ[name] = value
	}
	lookup := func(name string) (string, bool) { v, ok := environ[name]; return v, ok }
	l, err := Read(nil, lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := Default().GenerateAPI
	want.NumBeams, want.DoSample, want.Temperature, want.TopP, want.TopK = 2, false, 0.5, 0.25, 3
	want.MaxNewTokens, want.RepetitionPenalty, want.LengthPenalty = 100, 1.5, 2
	want.Store.MaxEntries, want.Store.TTL = 100, Duration(time.Minute)
	if !reflect.DeepEqual(l.Config.GenerateAPI, want) {
		t.Errorf("got\n%+v\nwant\n%+v", l.Config.GenerateAPI, want)
	}
	if c := l.Config; c.Server.Hostname != "127.0.0.1" || c.Server.Port != 6060 || c.Model.Path != "/usr/model" {
		t.Errorf("got %s:%d and %s", c.Server.Hostname, c.Server.Port, c.Model.Path)
	}
	told := map[string]bool{}
	for _, n := range l.Notices {
		told[n.Name] = true
	}
	for _, name := range strings.Fields("USE_LLAMA_CPP LLAMA_CPP_MAX_CONTEXT LLAMA_CPP_BATCH_TOKENS LLAMA_RAM_CACHE_MB ENABLE_CUDA DEVICE_MAP_AUTO TARGET_GPU_INDEX LOAD_IN_8BIT LOAD_IN_4BIT SPACE_TOKEN_CHAR MODEL_SEED MODEL_LOADER") {
		if !told[name] {
			t.Errorf("%s has no effect and nobody says so", name)
		}
	}
	if len(told) != 12 {
		t.Errorf("notices: %v", l.Notices)
	}
	// This server's own names, and not what Kubernetes sets for a service.
	environ["PORT"], environ["SERVER_HOST"], environ["MODEL_ID"], environ["GENERATE_TOP_K"] = "1", "", "mine", "7"
	delete(environ, "MODEL_DEFAULT_TOP_K")
	l, err = Read(nil, lookup)
	if c := l.Config; err != nil || c.Server.Port != 1 || c.Model.Path != "mine" || c.GenerateAPI.TopK != 7 {
		t.Errorf("%v: port %d, model %s, top_k %d", err, c.Server.Port, c.Model.Path, c.GenerateAPI.TopK)
	}
	delete(environ, "PORT")
	environ["SERVER_PORT"] = "tcp://10.0.0.1:80"
	if l, err = Read(nil, lookup); err != nil || l.Config.Server.Port != 3000 {
		t.Errorf("SERVER_PORT of Kubernetes: port %d, %v", l.Config.Server.Port, err)
	}
}

func TestGenerateAPIEffective(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.toml")
	if err := os.WriteFile(file, []byte("[generate_api.store]\nredis_url = \"redis://:secret@host/1\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Read(parsed(t, "--config", file, "--generate-top-k", "9"), func(string) (string, bool) {
		return "", false
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.WriteEffective(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n[generate_api]\n", "\ntop_k = 9 ", "# flag --generate-top-k\n",
		"\n[generate_api.store]\nredis_url = \"***\" ", "# " + file + ":2\n", "\nttl = \"1h0m0s\" ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Error("the password is printed")
	}
}
