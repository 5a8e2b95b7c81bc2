package host

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/server/config"
)

// Some tests ask with every plugin of the tree: the built-in ones, the examples of the SDKs and those in examples/.
// Which there are is read from the tree, so that a new one fails these tests until pluginUses says how it is used.

// pluginUse is how a request uses a plugin.
type pluginUse struct {
	params  string       // of the plugin, in `plugins`
	config  config.Table // the operator's
	grammar string       // members of a grammar in its language, of kind grammar
	chat    string       // members of a conversation that it takes part in, of kinds template and tools
	beside  string       // further plugins of that conversation, which have the model write what it is to read
	program bool         // it is of kind program
	draws   bool         // it has the seed decide, or takes texts that it does
	drafts  bool         // it is of kind draft: nobody asks it where nothing is guessed
	always  string       // its name where the server has it without being told, and uses it unnamed
}

const (
	story   = `"messages":[{"role":"user","content":"Tell me a story about a fox."}]`
	weather = `"messages":[{"role":"user","content":"What is the weather in Paris?"}]` + weatherTool
	numbers = `"messages":[{"role":"user","content":"As JSON: pin 4821"}],"tools":[{"type":"function","function":` +
		`{"name":"pin","parameters":{"type":"object","properties":{"value":{"type":"integer"}}}}}]`
	callLine = `,{"name":"per-request","params":{"answers":["CALL get_weather({\"city\": \"Paris\"})\n"]}}`
)

// pluginUses has the plugins by their names, those of an example by its folder.
var pluginUses = map[string]pluginUse{
	// plugins/std
	"no-repeat-ngram":    {params: `{"n":3}`},
	"dry":                {params: `{"multiplier":2}`},
	"xtc":                {draws: true, params: `{"probability":0.6,"threshold":0.05}`},
	"mirostat":           {draws: true, params: `{"tau":1.5}`},
	"banned-words":       {params: `{"words":["red","hat"]}`},
	"watermark":          {params: `{"bias":3}`},
	"thinking-budget":    {params: `{"open":" a","close":".","min":3,"budget":8,"message":" and so on"}`},
	"redact":             {params: `{"strings":["red hat","fox"],"with":"#"}`},
	"loop-breaker":       {params: `{"tokens":4,"rounds":2}`},
	"vote":               {program: true, draws: true, params: `{"n":2}`},
	"best-of-judge":      {program: true, draws: true, params: `{"n":2}`},
	"json-repair":        {program: true, params: `{"schema":{"type":"object"}}`},
	"budget-then-answer": {program: true, params: `{"budget":8}`},
	"grammar":            {always: grammarPlugin},
	"jinja":              {always: config.TemplatePlugin},
	"toolcalls":          {always: config.ToolsPlugin},

	// the SDKs'
	"banned-strings":    {params: `{"strings":["garden","found a"]}`}, // and the built-in one
	"every-mode":        {draws: true, params: `{"mode":"sparse","ids":[97,98,200,300,400],"bias":6,"random":true,"force_at":3,"force":[500,501,502,503]}`},
	"banned-and-boost":  {params: `{"ban":[300,301],"boost":{"#200":3,"#201":-2}}`},
	"epsilon-greedy":    {draws: true, params: `{"epsilon":0.2,"margin":3}`},
	"picture":           {grammar: `"language":"picture","value":"@@-##"`},
	"plain-chat":        {chat: story},
	"call-lines":        {chat: weather, beside: callLine},
	"think-then-answer": {program: true, params: `{"budget":8}`},
	"judge":             {program: true, draws: true, params: `{"n":2}`},

	// examples/
	"always-on":      {config: config.Table{"digits": 2, "instead": "..."}},
	"chat-template":  {chat: story, config: config.Table{"system": "Your name is Bob."}},
	"custom-grammar": {grammar: `"language":"csv-columns","value":"pet text\nage int\nsize small|large","params":{"rows":2}`},
	"custom-sampler": {draws: true, params: `{"n":1.5}`},
	"equal-runs":     {grammar: `"language":"equal-runs","value":"abc","params":{"most":3}`},
	"hot-swap":       {params: `{"tokens":5}`},
	"known-phrases":  {drafts: true, params: `{"phrases":["Mia found a red hat. Mia found a blue hat.","Once upon a time, there was a fox"]}`},
	"per-request":    {params: `{"answers":["a red hat","a red hen in the garden"]}`},
	"tool-parser":    {chat: numbers},
}

// treePlugin is a plugin of the tree.
type treePlugin struct {
	name   string // in requests
	source string // as in the settings
	use    pluginUse
}

// treePlugins returns all, those in Go built. It fails the test for what pluginUses does not have.
func treePlugins(t testing.TB) []treePlugin {
	t.Helper()
	var l treeList
	for _, path := range inTree(t, "plugins/std/wasm/*.wasm") {
		name := strings.TrimSuffix(filepath.Base(path), ".wasm")
		l.add(t, name, name, config.Builtin+name)
	}
	modules := map[string]bool{} // of the SDKs' examples
	for _, path := range inTree(t, "sdk/testdata/guests/*/*.wasm") {
		language, name := filepath.Base(filepath.Dir(path)), strings.TrimSuffix(filepath.Base(path), ".wasm")
		modules[language+"-"+undashed(name)] = true
		l.add(t, language+"-"+name, name, path)
	}
	for _, path := range inTree(t, "sdk/go/examples/*/main.go") {
		name := filepath.Base(filepath.Dir(path))
		if !modules["go-"+name] { // not kept, for they are large
			modules["go-"+name] = true
			l.add(t, "go-"+name, name, builtGo(t, filepath.Dir(path)))
		}
	}
	for language, sources := range map[string][]string{"c": inTree(t, "sdk/c/examples/*.c"),
		"assemblyscript": inTree(t, "sdk/assemblyscript/examples/*.ts"),
		"rust":           inTree(t, "sdk/rust/examples/*/Cargo.toml")} {
		for _, path := range sources {
			name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".c"), ".ts")
			if language == "rust" {
				name = filepath.Base(filepath.Dir(path))
			}
			if !strings.HasSuffix(name, "_test") && !modules[language+"-"+undashed(name)] {
				t.Errorf("%s: it has no module in sdk/testdata/guests", path)
			}
		}
	}
	l.addExamples(t)
	for name := range pluginUses {
		if !l.used[name] {
			t.Errorf("pluginUses has %s, which is not in the tree", name)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	return l.list
}

// treeList collects plugins.
type treeList struct {
	list []treePlugin
	used map[string]bool
}

// add adds the plugin that pluginUses has under the name of, whatever its dashes.
func (l *treeList) add(t testing.TB, name, of, source string) {
	t.Helper()
	for key, use := range pluginUses {
		if undashed(key) == undashed(of) {
			if l.used == nil {
				l.used = map[string]bool{}
			}
			l.used[key] = true
			l.list = append(l.list, treePlugin{name, source, use})
			return
		}
	}
	t.Errorf("%s: nothing says how to ask with it, pluginUses should", source)
}

// addExamples adds the modules below examples/, and those that are written in Go. One that stands in the place of
// another of the same settings is named after its language too.
func (l *treeList) addExamples(t testing.TB) {
	t.Helper()
	root := filepath.Join("..", "..", "examples")
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil || e.IsDir() {
			return err
		}
		source := path
		switch {
		case strings.HasSuffix(path, ".wasm"):
			below = strings.TrimSuffix(below, ".wasm")
		case filepath.Base(path) == "main.go":
			below = filepath.Dir(below)
			source = builtGo(t, filepath.Dir(path))
		default:
			return nil
		}
		of, _, _ := strings.Cut(filepath.ToSlash(below), "/")
		l.add(t, strings.ReplaceAll(filepath.ToSlash(below), "/", "-"), of, source)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func undashed(name string) string { return strings.NewReplacer("-", "", "_", "").Replace(name) }

// inTree lists the files of a pattern from the root of the tree on.
func inTree(t testing.TB, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
	if err != nil || len(list) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(list), err)
	}
	return list
}

// goModules are the plugins in Go that were built, by their folders.
var goModules struct {
	sync.Mutex
	folder string
	built  map[string]string
}

// builtGo builds the plugin in a folder, once.
func builtGo(t testing.TB, folder string) string {
	t.Helper()
	g := &goModules
	g.Lock()
	defer g.Unlock()
	if g.built == nil {
		dir, err := os.MkdirTemp("", "tgi-go-plugins")
		if err != nil {
			t.Fatal(err)
		}
		shared.close = append(shared.close, func() { _ = os.RemoveAll(dir) })
		g.folder, g.built = dir, map[string]string{}
	}
	if g.built[folder] == "" {
		to := filepath.Join(g.folder, fmt.Sprint(len(g.built))+".wasm")
		// as sdk/guests.mk has it
		cmd := exec.Command("go", "build", "-o", to, "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w -buildid=",
			"-buildvcs=false", ".")
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", folder, err, out)
		}
		g.built[folder] = to
	}
	return g.built[folder]
}

// openEvery opens a server with conversations and every plugin of the tree.
func openEvery(t *testing.T, list []treePlugin, s config.Speculation, change func(*config.Config)) *plugged {
	return openChat(t, func(c *config.Config) {
		c.Model.Speculation = s
		c.Limits.MaxBestOf = 3
		c.Server.Ollama = true
		c.Server.ReceiptKey = "the same in all of them" // their receipts are compared
		for _, x := range list {
			if x.use.always == "" {
				c.Plugin = append(c.Plugin, config.Plugin{Name: x.name, Source: x.source, Config: x.use.config,
					OnError: config.OnErrorFail, Apply: config.ApplyRequest})
			}
		}
		if change != nil {
			change(c)
		}
	})
}

// figures are what each plugin of a server was asked, and the fuel that it took.
func (p *plugged) figures() (calls, fuel map[string]uint64) {
	calls, fuel = map[string]uint64{}, map[string]uint64{}
	for _, s := range p.defaultModel().control.set.List() {
		calls[s.Name], fuel[s.Name] = s.Stats.Calls, s.Stats.Fuel
	}
	return calls, fuel
}

// steadyFuel tells of a plugin whether the same requests take the same fuel each time. A template is told the time;
// what drafts is asked where nobody else guesses.
func (x *treePlugin) steadyFuel() bool {
	template := x.use.always == config.TemplatePlugin || x.use.chat == story
	return !template && !x.use.drafts
}

// sameWork fails the test if a plugin took other fuel on one server than on the other, or nobody asked it. Where it
// did, both servers are asked all once more: a machine that is busy with other things may have a plugin asked otherwise
// once, guesses would each time.
func sameWork(t *testing.T, list []treePlugin, plain, guesses *plugged, all []asked) {
	t.Helper()
	var one, other map[string]uint64 // before
	for range 2 {
		plain.quiet(t)
		guesses.quiet(t)
		_, want := plain.figures()
		calls, got := guesses.figures()
		var differ []string
		for _, x := range list {
			name := x.name
			if x.use.always != "" {
				name = x.use.always
			}
			if calls[name] == 0 {
				t.Errorf("%s: nothing asked it", name)
			}
			if mine, theirs := got[name]-other[name], want[name]-one[name]; mine != theirs && x.steadyFuel() {
				differ = append(differ, fmt.Sprintf("%s: %d of fuel, %d without guesses", name, mine, theirs))
			}
		}
		switch {
		case len(differ) == 0:
			return
		case one == nil:
			t.Logf("once: %s", differ)
			one, other = want, got
			sameReplies(t, plain, guesses, all)
		default:
			t.Error(differ)
		}
	}
}

// TestTreePlugins: what is read from the tree has the plugins that there are.
func TestTreePlugins(t *testing.T) {
	var names []string
	for _, x := range treePlugins(t) {
		if slices.Contains(names, x.name) {
			t.Errorf("two plugins are named %s", x.name)
		}
		names = append(names, x.name)
	}
	t.Log(len(names), names)
}
