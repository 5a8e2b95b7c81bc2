package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShown: no form of an address shows its user, password, query or fragment, and names are shown as they are.
func TestShown(t *testing.T) {
	for address, want := range map[string]string{
		"":                             "",
		"http://localhost:4318/v1":     "http://localhost:4318/v1",
		"tcp://*:5557":                 "tcp://*:5557",
		"http://u:PW@h:1/x?key=PW#PW":  "http://***@h:1/x?***",
		"https://PW@h":                 "https://***@h",
		"https://h/x#PW":               "https://h/x#***",
		"https://h/x?":                 "https://h/x?",
		"https://h/@scope/x":           "https://h/@scope/x",
		"https://u:PW@h/@scope/x":      "https://***@h/@scope/x",
		"http://u:PW@ho st:1/":         "http://***@ho st:1/",
		"http://u:P/W@h/x":             "http://***@h/x",
		"http://u:1/PW@h/x":            "http://***@h/x",
		"http://u:P@W@h/x":             "http://***@h/x",
		"http://u:P?W@h/x":             "http://***",
		"http://u:1?PW@h":              "http://***",
		"http://u:p@PW/x@h/y":          "http://***@h/y",
		"https://PW/x@h":               "https://***@h",
		"http://ho st/?key=P@W":        "http://***",
		"http://ho st/?key=PW":         "http://ho st/?***",
		"http://%zz/?key=PW":           "http://%zz/?***",
		"ftp://h/?key=PW":              "ftp://h/?***",
		"redis://h/PW":                 "redis://h/***",
		"redis://u:PW@h:6379/PW?x=PW":  "redis://***@h:6379/***?***",
		"rediss://h:6379/0":            "rediss://h:6379/0",
		"u:PW://x@h":                   "***@h",
		"u:PW@h":                       "***@h",
		"h?key=PW":                     "h?***",
		"org/name@main":                "org/name@main",
		"org/name@main:q4.gguf":        "org/name@main:q4.gguf",
		"localhost:5000/dog@sha256:ab": "localhost:5000/dog@sha256:ab",
		"u:P/W@h/dog@sha256:ab":        "***@h/dog@sha256:ab",
		"what is it?":                  "what is it?",
		"/srv/models/a@b":              "/srv/models/a@b",
	} {
		if got := Shown(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
		if got := ShownHost(address); strings.Contains(got, "PW") {
			t.Errorf("%s is shown as %s", address, got)
		}
	}
	if got := ShownHost("PW@h:1"); got != "***@h:1" {
		t.Error(got)
	}
}

// TestAddressesAreNotTold: errors of settings that hold addresses, and what tgi check prints of them, have no secret.
func TestAddressesAreNotTold(t *testing.T) {
	read := func(file string, env map[string]string) (Loaded, error) {
		path := filepath.Join(t.TempDir(), "tgi.toml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := &Flags{given: map[string]string{configFlag: path}}
		return Read(flags, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	}
	for file, want := range map[string]string{
		"[trace]\notlp_endpoint = \"http://u:PW@ho st:1/\"":                     `given "http://***@ho st:1/"`,
		"[trace]\notlp_endpoint = \"PW@h:1\"":                                   `given "***@h:1"`,
		"[trace]\notlp_endpoint = [\"http://u:PW@h\"]":                          "given a list",
		"[[mcp]]\nname=\"a\"\nendpoint = \"http://u:PW@ho st/\"":                `given "http://***@ho st/"`,
		"[[mcp]]\nname=\"a\"\nendpoint = \"ftp://h/?key=PW\"":                   `given "ftp://h/?***"`,
		"[kv_events]\nendpoint = \"tcp://u:PW@127.0.0.1:1\"":                    `given "tcp://***@127.0.0.1:1"`,
		"[kv_events]\nreplay_endpoint = \"u:PW@h:1\"":                           `given "***@h:1"`,
		"[images]\nhosts = [\"u:PW@h\"]":                                        `given "***@h"`,
		"[images]\nhosts = \"PW@h\"":                                            `given "***@h"`,
		"[models]\nhub = \"https://u:PW@h\"":                                    `given "https://***@h"`,
		"[models]\nallow_hosts = [\"PW@h\"]":                                    `given "***@h"`,
		"[model]\npath = \"https://u:PW@h/x\"":                                  `given "https://***@h/x"`,
		"[model]\nsource = \"u:PW@h\"":                                          `file "***@h"`,
		"[[plugin]]\nname=\"a\"\nsource = \"https://u:PW@h/x.wasm\"":            `given "https://***@h/x.wasm"`,
		"[[plugin]]\nname=\"a\"\nsource=\"a.wasm\"\nreference = \"u:PW@h/a:1\"": `given "***@h/a:1"`,
		"[server]\nport = \"http://u:PW@h\"":                                    `given "http://***@h"`,
		"[quota]\nredis_url = \"http://u:PW@h\"":                                "quota.redis_url must be",
		"[quota]\nredis_url = \"redis://h/PW\"":                                 "quota.redis_url must be",
		"[server]\nhostname = \"u:PW@h\"":                                       `server.hostname must be the name or the IP address of a host, given "***@h"`,
		"[server]\nadmin_hostname = \"PW@h\"":                                   `given "***@h"`,
		"[log]\nformat = \"u:PW@h\"":                                            `given "***@h"`,
		"[runtime]\ndevice = \"http://u:PW@h\"":                                 `given "http://***@h"`,
		"[server]\ntls_cert = \"http://u:PW@h/x\"":                              "server.tls_key must be given together",
	} {
		_, err := read(file, nil)
		if err == nil || strings.Contains(err.Error(), "PW") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", file, err, want)
		}
	}
	for name, value := range map[string]string{"OTLP_ENDPOINT": "http://u:PW@ho st", "IMAGES_HOSTS": "u:PW@h",
		"KV_EVENTS_ENDPOINT": "u:PW@h"} {
		if _, err := read("", map[string]string{name: value}); err == nil || strings.Contains(err.Error(), "PW") {
			t.Errorf("%s: %v", name, err)
		}
	}
	const valid = `
[trace]
otlp_endpoint = "http://u:PW@h:4318/v1?key=PW"
[[mcp]]
name = "a"
endpoint = "https://u:PW@h/mcp?key=PW"
[[mcp]]
name = "b"
command = ["tools", "--token", "PW"]
[[plugin_signer]]
name = "me"
public_key = """-----BEGIN PRIVATE KEY-----
PW
-----END PRIVATE KEY-----"""
[[plugin_signer]]
name = "you"
public_key = "you.pem"
[model]
source = "https://h/x.tar?key=PW"
`
	l, err := read(valid, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := l.WriteEffective(&out); err != nil || strings.Contains(out.String(), "PW") {
		t.Errorf("%v in\n%s", err, out.String())
	}
	shown := map[string]any{}
	for _, e := range l.Effective() {
		shown[e.Key] = e.Value
	}
	maps.DeleteFunc(shown, func(_ string, v any) bool { text, ok := v.(string); return !ok || text == "" })
	for key, want := range map[string]string{"trace.otlp_endpoint": "http://***@h:4318/v1?***",
		"mcp[0].endpoint": "https://***@h/mcp?***", "plugin_signer[0].public_key": masked,
		"plugin_signer[1].name": "you", "model.source": "https://h/x.tar?***"} {
		if shown[key] != want {
			t.Errorf("%s is shown as %v, want %s", key, shown[key], want)
		}
	}
	if path, _ := shown["plugin_signer[1].public_key"].(string); !strings.HasSuffix(path, "/you.pem") {
		t.Errorf("the file of a key is shown as %q", path)
	}
	if !strings.Contains(out.String(), `command = ["tools", "***", "***"]`) {
		t.Error(out.String())
	}
}
