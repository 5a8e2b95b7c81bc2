package doctor_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/models/demo"
	"tgi/plugins/std"
	"tgi/runtime/kvdisk"
	"tgi/sdk/abi"
	"tgi/server/config"
	"tgi/server/host/doctor"
	"tgi/server/share"
)

// broken is a set-up, and the line that has to say what is wrong with it.
type broken struct {
	// settings is the text of tgi.toml; files are relative to its folder.
	settings string
	spoil    func(t *testing.T, dir string)
	check    string
	status   doctor.Status // Fail if it is not given
	found    string
	cure     string
}

// TestBroken: of every set-up the line that fails says what was found, with its cure.
func TestBroken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := unused.Addr().String()
	unused.Close()
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	lib := write("lib.so", []byte("no library"))
	now := time.Now()
	const model = "[model]\npath = \"m\"\n"
	const gone = "[[plugin]]\nname = \"p\"\nsource = \"gone/p.wasm\"\n"
	for name, b := range map[string]broken{
		"a typo": {settings: "[runtime]\ntreads = 2\n", check: "settings", found: "did you mean runtime.threads?",
			cure: "correct what the message names"},
		"no library": {settings: "[runtime]\nort_lib = \"lib.so\"\n", spoil: lib, check: "ONNX Runtime",
			found: "lib.so", cure: "set runtime.ort_lib"},
		"a port that is taken": {settings: "[server]\nport = " + port + "\n", check: "address",
			found: "is taken by doctor.test (process ", cure: "choose another port by server.port"},
		"open to all": {settings: "[server]\nhostname = \"0.0.0.0\"\n", check: "keys", status: doctor.Warn,
			found: "whoever reaches 0.0.0.0", cure: "set server.api_keys"},
		"no tokenizer": {settings: model, spoil: without("tokenizer.json"), check: "tokenizer of m",
			found: "has no tokenizer.json", cure: "put the model's tokenizer.json into its folder"},
		"truncated weights": {settings: model, spoil: truncated, check: "model m", found: "model.safetensors",
			cure: "fetch the model again"},
		"a broken configuration": {settings: model, spoil: and(without(""), write("m/config.json", []byte("{"))),
			check: "model m", found: "config.json", cure: "correct model.path"},
		"no model": {settings: model, spoil: func(*testing.T, string) {}, check: "model m",
			found: "model.path: there is no folder or file /", cure: "correct model.path"},
		"the ABI of a later version": {settings: plugin(""), spoil: write("p.wasm", module(abi.MarkerPrefix+"99")),
			check: "plugin p", found: "newer host", cure: "build it with the SDK of this version"},
		"a plugin that was changed": {settings: plugin(strings.Repeat("0", 64)), spoil: builtin, check: "plugin p",
			found: "sha256", cure: "install the plugin again"},
		"a parameter that its plugin refuses": {settings: plugin("") + "[plugin.config]\nbasis = \"x\"\n",
			spoil: builtin, check: "plugin p", found: "basis", cure: "tgi plugin check"},
		"a plugin that nobody signed": {settings: plugin(fmt.Sprintf("%x", sha256.Sum256(dry(t)))) +
			"reference = \"registry.example/p:1\"\n" + signer,
			spoil: and(builtin, public), check: "plugin p", found: "not signed by a [[plugin_signer]]",
			cure: "install a version that one of them signed"},
		"a plugin of one's own that nobody signed": {settings: plugin("") + signer +
			"[plugins]\nrequire_signed = true\n", spoil: and(builtin, public), check: "plugin p",
			found: "not signed by a [[plugin_signer]]", cure: "tgi plugin sign"},
		"wrong settings beside no library": {settings: "[runtime]\nort_lib = \"lib.so\"\ndevice = \"gpu\"\n", spoil: lib,
			check: "ONNX Runtime", found: "lib.so", cure: "set runtime.ort_lib"},
		"wrong settings and a machine": {settings: "[runtime]\ntreads = 2\n", check: "the rest", status: doctor.Warn,
			found: "are not looked at", cure: "correct the settings"},
		"a signer without a key": {settings: plugin("") + signer, spoil: builtin, check: "signer team",
			found: "team.pub", cure: "set public_key of this [[plugin_signer]]"},
		"a file for a folder": {settings: "[record]\nfolder = \"taken\"\n", spoil: write("taken", nil),
			check: "record.folder", found: "is a file, not a folder", cure: "set record.folder to another"},
		"no cache": {spoil: func(t *testing.T, dir string) {
			write("cache", nil)(t, dir)
			t.Setenv("TGI_CACHE", "")
			t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
		}, check: "cache folder", found: "cache", cure: "set XDG_CACHE_HOME"},
		"a cache in use": {settings: "[runtime]\nkv_disk = \"kv\"\n", spoil: inUse, check: "kv_disk",
			found: "another process uses it", cure: "give each a folder of its own"},
		"too little memory": {settings: "[runtime]\nkv_memory = \"100TiB\"\n", check: "memory of tgi-demo",
			found: "runtime.kv_memory must be <=", cure: "lower runtime.kv_memory"},
		"an expired certificate": {settings: tls, spoil: and(certificate("c.pem", "k.pem", now.Add(-time.Minute))),
			check: "certificate", found: "expired on", cure: "renew the certificate"},
		"a certificate that soon expires": {settings: tls, spoil: certificate("c.pem", "k.pem", now.Add(48*time.Hour)),
			check: "certificate", status: doctor.Warn, found: "expires on", cure: "renew the certificate"},
		"another's key": {settings: tls, spoil: and(certificate("c.pem", "other.pem", now.Add(time.Hour)),
			certificate("other-c.pem", "k.pem", now.Add(time.Hour))), check: "certificate", found: "does not match",
			cure: "set server.tls_key to the key"},
		"no certificate": {settings: tls, spoil: write("k.pem", nil), check: "certificate", found: "c.pem",
			cure: "PEM files that the server may read"},
		"no Redis": {settings: "[quota]\nredis_url = \"redis://:s3cret@" + nobody + "\"\n", check: "redis",
			found: "quota.redis_url: " + nobody + " does not answer", cure: "start Redis"},
		"a Redis that hangs": {settings: "[responses]\nredis_url = \"redis://:s3cret@" + deaf.Addr().String() + "\"\n",
			check: "redis", found: "does not answer", cure: "start Redis"},
		"a taken port of events": {settings: "[kv_events]\nendpoint = \"tcp://127.0.0.1:" + port + "\"\n",
			check: "kv_events.endpoint", found: "is taken by doctor.test", cure: "another port by kv_events.endpoint"},
		"a taken port of replays": {settings: "[kv_events]\nendpoint = \"tcp://" + nobody +
			"\"\nreplay_endpoint = \"tcp://127.0.0.1:" + port + "\"\n", check: "kv_events.replay_endpoint",
			found: "is taken by doctor.test", cure: "end that program"},
		"an MCP server without its program": {settings: mcp + "command = [\"no-such-program\", \"s3cret\"]\n",
			check: "mcp files", found: "no-such-program", cure: "install the program"},
		"an MCP server whose program may not be run": {settings: mcp + "command = [\"./serve\"]\nfolder = \"f\"\n",
			spoil: func(t *testing.T, dir string) {
				if err := os.Mkdir(filepath.Join(dir, "f"), 0o700); err != nil {
					t.Fatal(err)
				}
				write("f/serve", nil)(t, dir)
			}, check: "mcp files", found: "f/serve", cure: "correct command"},
		"an MCP server without its folder": {settings: mcp + "command = [\"true\"]\nfolder = \"gone\"\n",
			check: "mcp files", found: "gone", cure: "correct folder"},
		"an MCP server that is not there": {settings: mcp + "endpoint = \"http://me:s3cret@" + nobody + "/s3cret\"\n",
			check: "mcp files", found: nobody + " does not answer", cure: "start that server"},
		"no collector": {settings: "[trace]\notlp_endpoint = \"http://me:s3cret@" + nobody + "\"\n", check: "traces",
			status: doctor.Warn, found: nobody + " does not answer", cure: "start the collector"},
		"no model file": {settings: "[model]\nname = \"m\"\npath = \"gone/m.gguf\"\n", check: "model m",
			found: "tgi.toml:3:1: model.path: there is no folder or file ",
			cure:  "put the model there, correct model.path"},
		"no module": {settings: gone, check: "plugin p", found: "tgi.toml:3:1: plugin.source: there is no file ",
			cure: "put the module there, correct source"},
		"no module, and no model": {settings: gone + model, check: "plugin p",
			found: "tgi.toml:3:1: plugin.source: there is no file ", cure: "put the module there, correct source"},
		"no installed module": {settings: gone + "reference = \"oci.example/p:1\"\nsha256 = \"" +
			strings.Repeat("0", 64) + "\"\n", check: "plugin p", found: "there is no file ",
			cure: "tgi plugin install oci.example/p:1"},
		"no model, and a typo": {settings: model + "[[plugin]]\nname = \"p\"\nsource = \"builtin:dri\"\n",
			spoil: func(*testing.T, string) {}, check: "plugin p", found: "there is no built-in plugin",
			cure: "did you mean dry?"},
		"a GPU that is not there": {settings: "[runtime]\ndevice = \"cuda\"\n", check: "device = cuda",
			found: "cannot be used", cure: "set runtime.device to cpu"},
		"a name that controls terminals": {settings: "[record]\nfolder = \"a\\u001b[2J\"\n",
			spoil: write("a\x1b[2J", nil), check: "record.folder", found: `a\x1b[2J is a file`, cure: "record.folder"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "a GPU that is not there" && os.Getenv("TGI_GPU") != "" {
				t.Skip("there is one")
			}
			b.hold(t)
		})
	}
}

// hold runs the doctor in the set-up, which has to have its line.
func (b broken) hold(t *testing.T) {
	t.Helper()
	out := b.run(t)
	if !b.in(out) {
		text, _ := json.MarshalIndent(out, "", " ")
		t.Errorf("no %s of %q with %q and %q in\n%s", b.status, b.check, b.found, b.cure, text)
	}
}

// TestNoCPULibrary: without a library for the CPU, the lines about GPUs, which nobody asked for, are no failures.
func TestNoCPULibrary(t *testing.T) {
	for _, device := range []string{"cpu", "auto"} {
		t.Setenv("TGI_ORT_LIB", "")
		t.Setenv("TGI_CACHE", t.TempDir())
		b := broken{settings: fmt.Sprintf("[runtime]\ndevice = %q\n", device), check: "device = " + device,
			found: "none is installed", cure: "set runtime.ort_lib"}
		for _, l := range b.run(t) {
			if l.Status == doctor.Fail && (l.Check == "driver" || l.Check == "GPU library") {
				t.Errorf("%s: %+v fails", device, l)
			}
		}
		b.hold(t)
	}
}

// in says whether the line is one of lines.
func (b broken) in(lines []doctor.Line) bool {
	return slices.ContainsFunc(lines, func(l doctor.Line) bool {
		return l.Check == b.check && l.Status == cmp.Or(b.status, doctor.Fail) && strings.Contains(l.Found, b.found) &&
			strings.Contains(l.Cure, b.cure)
	})
}

// run runs the doctor in the set-up and returns what it says.
func (b broken) run(t *testing.T) []doctor.Line {
	t.Helper()
	dir := t.TempDir()
	if b.spoil != nil {
		b.spoil(t, dir)
	}
	text := b.settings
	if !strings.Contains(text, "[server]") {
		text += "[server]\nhostname = \"127.0.0.1\"\nport = 0\napi_keys = [\"s3cret\"]\n"
	}
	if b.status != doctor.Warn && !strings.HasPrefix(b.check, "plugin") && !strings.HasPrefix(b.check, "upload") &&
		!strings.Contains(b.check, " of ") && !strings.Contains(text, "[model]") {
		text += "[model]\npath = \"none\"\n" // no time is spent on its plugins
	}
	file := filepath.Join(dir, "tgi.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", dir)
	lookup := func(name string) (string, bool) { return file, name == "TGI_CONFIG" }
	loaded, wrong := config.Read(nil, lookup)
	if wrong == nil && loaded.Config.File != file {
		t.Fatalf("settings from %q", loaded.Config.File)
	}
	var out bytes.Buffer
	sound, err := doctor.Run(t.Context(), doctor.Options{Config: loaded.Config, Wrong: wrong, JSON: true, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "s3cret") || strings.Contains(out.String(), "\x1b") {
		t.Errorf("a secret or a control in %s", &out)
	}
	var lines []doctor.Line
	if err := json.Unmarshal(out.Bytes(), &lines); err != nil {
		t.Fatal(err)
	}
	if sound != (wrong == nil && cmp.Or(b.status, doctor.Fail) != doctor.Fail) {
		t.Errorf("sound is %t", sound)
	}
	for _, l := range lines {
		if l.Status != doctor.OK && l.Cure == "" {
			t.Errorf("%+v has no cure", l)
		}
		if l.Status == doctor.OK && l.Cure != "" {
			t.Errorf("%+v has a cure of nothing", l)
		}
	}
	return lines
}

// TestUploads: of modules that came over the network each that cannot be used is told, and no file is touched.
func TestUploads(t *testing.T) {
	folder := ""
	settings := "[plugins]\nfolder = \"\"\nuploads = \"up\"\n"
	for _, name := range []string{"waiting", "broken"} {
		settings += "[[plugin]]\nname = \"" + name + "\"\nsource = \"builtin:dry\"\n"
	}
	lines := broken{settings: settings, check: "upload", spoil: func(t *testing.T, dir string) {
		folder = filepath.Join(dir, "up")
		upload("sound", dry(t), "")(t, dir)
		upload("damaged", dry(t), "0")(t, dir)
		upload("later", module(abi.MarkerPrefix+"99"), "")(t, dir)
		upload("bare", dry(t), "")(t, dir)
		upload("waiting", dry(t), "")(t, dir)
		upload("broken", dry(t), "0")(t, dir)
		if err := os.Remove(filepath.Join(dir, "up", "bare-1.wasm")); err != nil {
			t.Fatal(err)
		}
		write("up/left.wasm", nil)(t, dir) // a server's start would remove it
	}}.run(t)
	for _, b := range []broken{
		{check: "upload sound", status: doctor.OK, found: "loaded and tried"},
		{check: "upload damaged", found: "has sha256", cure: "PUT /admin/plugins/damaged"},
		{check: "upload later", found: "newer host", cure: "upload the module again"},
		{check: "upload bare", found: "bare-1.wasm", cure: "remove it"},
		{check: "upload waiting", status: doctor.Warn, found: "has its name", cure: "rename the [[plugin]]"},
		{check: "upload broken", status: doctor.Warn, found: "could not", cure: "DELETE /admin/plugins/broken"},
	} {
		if !b.in(lines) {
			t.Errorf("%+v is not in\n%+v", b, lines)
		}
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 12 {
		t.Errorf("%d files are left, %v", len(files), err)
	}
}

// TestPluginCures: names of built-in plugins, their settings, and signatures that are missing, each with its own cure.
func TestPluginCures(t *testing.T) {
	block := func(name, source string) string {
		return "[[plugin]]\nname = \"" + name + "\"\nsource = \"builtin:" + source + "\"\n"
	}
	lines := broken{settings: signer + "[plugins]\nfolder = \".\"\nuploads = \"up\"\nrequire_signed = true\n" +
		block("typo", "dri") + block("wrong", "dry") +
		"[plugin.config]\nbasis = \"x\"\n", check: "plugin",
		spoil: and(builtin, public, func(t *testing.T, dir string) { upload("sent", dry(t), "")(t, dir) })}.run(t)
	const unknown = "`tgi plugin list` shows what is built in"
	for _, b := range []broken{
		{check: "plugin typo", found: "nothing of this name is built in", cure: unknown + "; did you mean dry?"},
		{check: "plugin wrong", found: "basis", cure: "tgi plugin show builtin:dry"},
		{check: "plugin p", found: "not signed by a [[plugin_signer]]", cure: "tgi plugin sign"}, // of the folder
		{check: "upload sent", found: "no signatures came with the module", cure: "tgi plugin upload"},
	} {
		if !b.in(lines) {
			t.Errorf("%+v is not in\n%+v", b, lines)
		}
	}
}

// TestKeys: keys that are guessed, or read on their way, are told, and none is shown.
func TestKeys(t *testing.T) {
	keys := []any{"s3cret", "change-me", "a0817263544536271809aabbccddeeff", "Change_Me_too", "test-key-1",
		"12345678901234567890123"}
	settings := fmt.Sprintf("api_keys = [%q, %q, %q]\nadmin_keys = [%q, %q, %q]\nport = 0\n", keys...)
	at := func(more string) []doctor.Line {
		return broken{settings: "[server]\n" + settings + more, check: "model none"}.run(t)
	}
	tells := func(lines []doctor.Line, check, found string) {
		t.Helper()
		if b := (broken{check: check, status: doctor.Warn, found: found}); !b.in(lines) {
			t.Errorf("%s, %s is not in\n%+v", check, found, lines)
		}
	}
	open := at("hostname = \"0.0.0.0\"\n")
	tells(open, "key api_keys[0]", "it has 6 characters, fewer than 16")
	for _, k := range []string{"api_keys[1]", "admin_keys[0]", "admin_keys[1]"} {
		tells(open, "key "+k, "it is a placeholder")
	}
	tells(open, "TLS", "keys and texts reach 0.0.0.0 unencrypted")
	tells(at("hostname = \"127.0.0.1\"\nadmin_hostname = \"::\"\nadmin_port = 1\n"), "TLS", "reach :: unencrypted")
	local := at("hostname = \"127.0.0.1\"\n")
	if slices.ContainsFunc(local, func(l doctor.Line) bool { return l.Check == "TLS" }) {
		t.Errorf("nobody reads what stays on the machine: %+v", local)
	}
	for _, l := range slices.Concat(open, local) {
		shown := slices.ContainsFunc(keys, func(key any) bool {
			return strings.Contains(l.Check+l.Found+l.Cure, key.(string))
		})
		if shown || l.Check == "key api_keys[2]" || l.Check == "key admin_keys[2]" {
			t.Errorf("%+v", l)
		}
	}
}

// TestShortKeys: what says nothing of a key is shown as it is, however short that is.
func TestShortKeys(t *testing.T) {
	lines := broken{settings: "[server]\nhostname = \"127.0.0.1\"\nport = 0\napi_keys = [\"e\", \"1\", \"model\"]\n",
		check: "model none"}.run(t)
	for _, l := range lines {
		if strings.Contains(l.Check+l.Found+l.Cure, "…") {
			t.Errorf("%+v", l)
		}
	}
}

// TestOtherModels: template and tools of every model are tried, not those of the default model alone.
func TestOtherModels(t *testing.T) {
	block := func(name, more string) string {
		return "[[model]]\nname = \"" + name + "\"\n" + more + "\n"
	}
	lines := broken{settings: block("tgi-demo", "") + block("a", "path = \"m\"\ntemplate = \"bad.jinja\"") +
		block("b", "path = \"m\"\ntools = \"no-such\""), check: "chat of a",
		spoil: and(without(""), write("bad.jinja", []byte("{% if %}")))}.run(t)
	for _, b := range []broken{
		{check: "chat of a", found: "bad.jinja", cure: "correct the model's template"},
		{check: "chat of b", found: "no-such", cure: "correct the model's template and tools"},
		{check: "chat", status: doctor.OK},
	} {
		if !b.in(lines) {
			t.Errorf("%+v is not in\n%+v", b, lines)
		}
	}
}

// TestSound: nothing is wrong with the demo model, in text.
func TestSound(t *testing.T) {
	cfg := config.Default()
	cfg.Server.Hostname, cfg.Server.Port = "127.0.0.1", 0
	cfg.Plugins.Folder, cfg.Plugins.Uploads = "", ""
	var out strings.Builder
	sound, err := doctor.Run(t.Context(), doctor.Options{Config: cfg, Out: &out})
	if err != nil || !sound || strings.Contains(out.String(), "\nfail") {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"ok    settings", "ok    ONNX Runtime", "ok    CPU kernels", "ok    model tgi-demo",
		"ok    tokenizer of tgi-demo", "memory of tgi-demo", "ok    plugins"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

// TestMain is a server's process where TestBeside starts it: it listens, and prints its port.
func TestMain(m *testing.M) {
	if os.Getenv("DOCTOR_LISTENS") == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
	_ = l.Close()
}

// TestBeside: beside its own server nothing is wrong.
func TestBeside(t *testing.T) {
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), "DOCTOR_LISTENS=1")
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), server.Wait() }()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	settings := "[server]\nhostname = \"127.0.0.1\"\nport = " + port + "[runtime]\nkv_disk = \"kv\"\n"
	b := broken{settings: settings, check: "address", status: doctor.Warn, found: "a tgi server runs there",
		cure: "`tgi health`", spoil: inUse}
	lines := b.run(t)
	kv := broken{check: "kv_disk", status: doctor.Warn, found: "another process uses it", cure: "end the other server"}
	if !b.in(lines) || !kv.in(lines) {
		t.Errorf("%+v", lines)
	}
	// A server that has a port of events alone is another one, whose events they would be.
	other := "[kv_events]\nendpoint = \"tcp://127.0.0.1:" + strings.TrimSpace(port) + "\"\n"
	broken{settings: other, check: "kv_events.endpoint", found: "a tgi server with another address",
		cure: "give each server a port of its own by kv_events.endpoint"}.hold(t)
}

// TestInterrupted: who ends it early is told what was not looked at.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out strings.Builder
	sound, err := doctor.Run(ctx, doctor.Options{Config: config.Default(), Out: &out})
	if err != nil || sound {
		t.Errorf("sound is %t, %v:\n%s", sound, err, &out)
	}
}

const tls = "[server]\nhostname = \"127.0.0.1\"\nport = 0\ntls_cert = \"c.pem\"\ntls_key = \"k.pem\"\n"

const mcp = "[[mcp]]\nname = \"files\"\n"

// upload returns what keeps a module as an upload; sum is not its own if it is given.
func upload(name string, module []byte, sum string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "up"), 0o700); err != nil {
			t.Fatal(err)
		}
		file := name + "-1.wasm"
		write("up/"+file, module)(t, dir)
		sum := cmp.Or(sum, fmt.Sprintf("%x", sha256.Sum256(module)))
		write("up/"+name+".json", fmt.Appendf(nil, `{"module": %q, "sha256": %q, "on_error": "fail", "apply": "request",`+
			`"limits": {}}`, file, sum))(t, dir)
	}
}

const signer = "[[plugin_signer]]\nname = \"team\"\npublic_key = \"team.pub\"\n"

// public writes the key of a signer.
func public(t *testing.T, dir string) {
	if err := share.Generate(filepath.Join(dir, "team"), share.Ed25519, nil); err != nil {
		t.Fatal(err)
	}
}

// plugin declares one in a file.
func plugin(sum string) string {
	text := "[[plugin]]\nname = \"p\"\nsource = \"p.wasm\"\n"
	if sum != "" {
		text += "sha256 = \"" + sum + "\"\n"
	}
	return text
}

// write returns what writes a file.
func write(name string, b []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// and does one after the other.
func and(list ...func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		for _, f := range list {
			f(t, dir)
		}
	}
}

// builtin writes a plugin that works, but for its settings.
func builtin(t *testing.T, dir string) { write("p.wasm", dry(t))(t, dir) }

// dry is the module of a plugin.
func dry(t *testing.T) []byte {
	t.Helper()
	module, err := fs.ReadFile(std.FS(), "dry.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// without returns what copies the demo model but for one file.
func without(file string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.CopyFS(filepath.Join(dir, "m"), demo.Checkpoint()); err != nil {
			t.Fatal(err)
		}
		if file != "" {
			if err := os.Remove(filepath.Join(dir, "m", file)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// truncated copies the demo model, of its weights the first half.
func truncated(t *testing.T, dir string) {
	without("")(t, dir)
	if err := os.Truncate(filepath.Join(dir, "m", "model.safetensors"), 5<<20); err != nil {
		t.Fatal(err)
	}
}

// inUse has a folder of prompts opened by somebody else.
func inUse(t *testing.T, dir string) {
	f, err := kvdisk.Open(kvdisk.Options{Path: filepath.Join(dir, "kv"), Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// module is a module with one export, a function that does nothing.
func module(export string) []byte {
	section := func(id byte, b ...byte) []byte { return append([]byte{id, byte(len(b))}, b...) }
	return bytes.Join([][]byte{[]byte("\x00asm\x01\x00\x00\x00"), section(1, 1, 0x60, 0, 0), section(3, 1, 0),
		section(7, append(append([]byte{1, byte(len(export))}, export...), 0, 0)...), section(10, 1, 2, 0, 0x0b)}, nil)
}

// certificate returns what writes a pair that ends at a time.
func certificate(cert, key string, end time.Time) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-240 * time.Hour), NotAfter: end}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
		if err != nil {
			t.Fatal(err)
		}
		text, err := x509.MarshalPKCS8PrivateKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		write(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))(t, dir)
		write(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))(t, dir)
	}
}

// TestSeveralWrongSettings: the settings' errors stand on one line, with nothing escaped between them and no secret.
func TestSeveralWrongSettings(t *testing.T) {
	var out bytes.Buffer
	sound, err := doctor.Run(t.Context(), doctor.Options{Out: &out,
		Config: config.Config{Server: config.Server{APIKeys: []string{"sk-hush"}}},
		Wrong:  errors.Join(errors.New("a is wrong"), errors.New("b is wrong: sk-hush"))})
	if err != nil || sound || !strings.Contains(out.String(), "a is wrong; b is wrong: …\n") {
		t.Errorf("%v %v %q", sound, err, &out)
	}
}
