package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/safetensors"
	"tgi/models/scratch"
	"tgi/models/tensors"
)

const goldenDir = "../testdata/golden"

// options counts conversions in a cache of the test's own.
func options(t *testing.T, w models.Weights) (Options, *int) {
	t.Helper()
	n := new(int)
	var mu sync.Mutex
	return Options{Weights: w, Dir: filepath.Join(t.TempDir(), "cache"), Converted: func(Conversion) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}}, n
}

// checkpoint copies a golden checkpoint, so that a test may damage it. Its
// files are old enough for their checksums to be remembered.
func checkpoint(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(goldenDir, name))); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for _, f := range files {
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func prepared(t *testing.T, dir string, opt Options) models.Built {
	t.Helper()
	b, err := Prepare(context.Background(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(b.Dir, decoder.DataFile)); err != nil || st.Size() != b.WeightBytes {
		t.Fatalf("data file: %v, want %d bytes", err, b.WeightBytes)
	}
	if b.ModelFile != filepath.Join(b.Dir, decoder.ModelFile) || !filepath.IsAbs(b.Dir) {
		t.Fatalf("paths %q and %q", b.Dir, b.ModelFile)
	}
	entries, err := os.ReadDir(opt.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
	return b
}

func TestPrepareConvertsOnce(t *testing.T) {
	dir := checkpoint(t, "qwen2")
	opt, n := options(t, models.Int4)
	first := prepared(t, dir, opt)
	if first.Name != "qwen2" || first.Layers != 3 || first.Weights != models.Int4 || first.Params == 0 {
		t.Errorf("built %+v", first)
	}
	if second := prepared(t, dir, opt); second != first || *n != 1 {
		t.Errorf("%d conversions; second %+v, first %+v", *n, second, first)
	}
	opt.Weights = models.FP32
	if other := prepared(t, dir, opt); other.Dir == first.Dir || *n != 2 {
		t.Errorf("%d conversions; fp32 is in %s", *n, other.Dir)
	}
}

func TestEqualFoldersShareAnEntry(t *testing.T) {
	opt, n := options(t, models.FP32)
	dir := checkpoint(t, "llama2")
	first := prepared(t, dir, opt)
	again := prepared(t, checkpoint(t, "llama2"), opt)
	fromFS, err := PrepareFS(context.Background(), os.DirFS(dir), "llama2", opt)
	if err != nil {
		t.Fatal(err)
	}
	if again != first || fromFS != first || *n != 1 {
		t.Errorf("%d conversions: %+v, %+v, %+v", *n, first, again, fromFS)
	}
}

func TestChangedContentIsConvertedAnew(t *testing.T) {
	dir := checkpoint(t, "llama3")
	opt, n := options(t, models.Int8)
	first := prepared(t, dir, opt)
	weights := filepath.Join(dir, safetensors.SingleFile)
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1 // same size
	if err := os.WriteFile(weights, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if second := prepared(t, dir, opt); second.Dir == first.Dir || *n != 2 {
		t.Errorf("%d conversions after a weight changed", *n)
	}
	config := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, bytes.Replace(text, []byte(`"factor": 8.0`), []byte(`"factor": 9.0`), 1),
		0o644); err != nil {
		t.Fatal(err)
	}
	prepared(t, dir, opt)
	if *n != 3 {
		t.Errorf("%d conversions after config.json changed", *n)
	}
	generation := filepath.Join(dir, "generation_config.json")
	if err := os.WriteFile(generation, []byte(`{"eos_token_id": 9}`), 0o644); err != nil {
		t.Fatal(err)
	}
	prepared(t, dir, opt)
	if *n != 3 {
		t.Errorf("%d conversions after a file that the graph does not depend on changed", *n)
	}
}

func TestDamagedEntriesAreRebuilt(t *testing.T) {
	dir := checkpoint(t, "llama2")
	cut := func(name string) func(t *testing.T, entry string) {
		return func(t *testing.T, entry string) {
			path := filepath.Join(entry, name)
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, st.Size()-1); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(t *testing.T, entry string) {
		return func(t *testing.T, entry string) {
			if err := os.Remove(filepath.Join(entry, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	flip := func(name string) func(t *testing.T, entry string) {
		return func(t *testing.T, entry string) {
			path := filepath.Join(entry, name)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)/2] ^= 1
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	cases := map[string]struct {
		damage func(t *testing.T, entry string)
		told   string
	}{
		"flipped model": {flip(decoder.ModelFile), "checksum of model.onnx differs"},
		"flipped data":  {flip(decoder.DataFile), "checksum of model.onnx.data differs"},
		"data cut":      {cut(decoder.DataFile), "model.onnx.data has "},
		"model cut":     {cut(decoder.ModelFile), "checksum of model.onnx differs"},
		"manifest cut":  {cut(manifestFile), manifestFile},
		"no data":       {remove(decoder.DataFile), "no such file"},
		"no model":      {remove(decoder.ModelFile), "no such file"},
		"no manifest":   {remove(manifestFile), "no such file"},
		"another model's manifest": {func(t *testing.T, entry string) {
			path := filepath.Join(entry, manifestFile)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(data, []byte(`"key": "`)) + len(`"key": "`) + 40 // past what names the folder
			data[at] ^= 1
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "holds another model"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			opt, n := options(t, models.Int4)
			first := prepared(t, dir, opt)
			want, err := os.ReadFile(filepath.Join(first.Dir, decoder.DataFile))
			if err != nil {
				t.Fatal(err)
			}
			var told []error
			opt.Damaged = func(err error) { told = append(told, err) }
			c.damage(t, first.Dir)
			if second := prepared(t, dir, opt); second != first || *n != 2 {
				t.Errorf("%d conversions, %+v", *n, second)
			}
			if got, err := os.ReadFile(filepath.Join(first.Dir, decoder.DataFile)); err != nil ||
				!bytes.Equal(got, want) {
				t.Errorf("the data differs: %v", err)
			}
			if len(told) != 1 || !strings.Contains(told[0].Error(), c.told) {
				t.Errorf("told %v, want one error with %q", told, c.told)
			}
		})
	}
}

// TestDataIsReadOnce: a data file whose checksum is known is not read again at each start, and one that is damaged
// later is noticed.
func TestDataIsReadOnce(t *testing.T) {
	dir := checkpoint(t, "llama2")
	opt, n := options(t, models.Int4)
	var told []error
	opt.Damaged = func(err error) { told = append(told, err) }
	path := filepath.Join(prepared(t, dir, opt).Dir, decoder.DataFile)
	sums := openChecksumCache(filepath.Join(opt.Dir, hashesFile))
	known, ok := sums.entries[path]
	if !ok {
		t.Fatalf("the checksum of the data is not remembered: %v", sums.entries)
	}
	right := known
	known.SHA256 = strings.Repeat("0", 64) // believed, so the file was not read
	sums.entries[path], sums.changed = known, true
	sums.save()
	prepared(t, dir, opt)
	if *n != 2 || len(told) != 1 || !strings.Contains(told[0].Error(), "checksum of "+decoder.DataFile+" differs") {
		t.Fatalf("%d conversions, told %v", *n, told)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[0] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	prepared(t, dir, opt)
	sum, err := openChecksumCache(filepath.Join(opt.Dir, hashesFile)).sum(t.Context(), os.DirFS(filepath.Dir(path)),
		decoder.DataFile, path)
	if *n != 3 || len(told) != 2 || err != nil || sum != right.SHA256 {
		t.Errorf("%d conversions, told %v", *n, told)
	}
}

// TestOnlyDamageIsBuiltAnew: an entry that could not be checked is kept, whoever asks.
func TestOnlyDamageIsBuiltAnew(t *testing.T) {
	dir := checkpoint(t, "llama2")
	opt, n := options(t, models.Int4)
	built := prepared(t, dir, opt)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var m manifest
	data, err := os.ReadFile(filepath.Join(built.Dir, manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	temp, err := os.MkdirTemp(opt.Dir, tempPrefix)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	noSums := filepath.Join(t.TempDir(), hashesFile) // all is read again
	if err := publish(cancelled, temp, built.Dir, m.Key,
		openChecksumCache(noSums)); !errors.Is(err, context.Canceled) {
		t.Errorf("publish: %v", err)
	}
	if _, err := load(t.Context(), built.Dir, m.Key, openChecksumCache(noSums)); err != nil {
		t.Errorf("the entry of another process is gone: %v", err)
	}
	// A file that cannot be read: a folder has its place.
	path := filepath.Join(built.Dir, decoder.ModelFile)
	if err := errors.Join(os.Rename(path, path+".aside"), os.Mkdir(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	opt.Damaged = func(err error) { t.Errorf("told %v", err) }
	opt.Progress = func(int64, int64) { t.Error("converted again") }
	if _, err := Prepare(t.Context(), dir, opt); err == nil || !strings.Contains(err.Error(), "model cache: read ") {
		t.Errorf("unreadable: %v", err)
	}
	if *n != 1 {
		t.Errorf("%d conversions", *n)
	}
}

func TestManyMayPrepareAtOnce(t *testing.T) {
	dir := checkpoint(t, "smollm2")
	opt, n := options(t, models.Int8)
	var wg sync.WaitGroup
	built, errs := make([]models.Built, 8), make([]error, 8)
	for i := range built {
		wg.Go(func() { built[i], errs[i] = Prepare(context.Background(), dir, opt) })
	}
	wg.Wait()
	for i := range built {
		if errs[i] != nil || built[i] != built[0] {
			t.Errorf("%d: %+v, %v", i, built[i], errs[i])
		}
	}
	if *n < 1 {
		t.Error("nobody converted")
	}
	prepared(t, dir, opt) // looks for leftovers
}

// TestChangedWhileConverted: what is converted of files that change meanwhile is not kept under the key of what they
// were.
func TestChangedWhileConverted(t *testing.T) {
	dir := checkpoint(t, "llama2")
	opt, conversions := options(t, models.Int4)
	opt.Progress = func(int64, int64) {
		at := filepath.Join(dir, "config.json")
		data, err := os.ReadFile(at)
		if err == nil {
			err = os.WriteFile(at, append(data, ' '), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := Prepare(context.Background(), dir, opt); err == nil ||
		!strings.Contains(err.Error(), "its files were changed meanwhile") || *conversions != 0 {
		t.Errorf("%v, %d conversions", err, *conversions)
	}
	opt.Progress = nil
	prepared(t, dir, opt)
}

func TestACancelledConversionLeavesNothing(t *testing.T) {
	opt, n := options(t, models.FP32)
	ctx, cancel := context.WithCancel(context.Background())
	opt.Progress = func(done, total int64) { cancel() }
	if _, err := Prepare(ctx, checkpoint(t, "llama2"), opt); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	entries, err := os.ReadDir(opt.Dir)
	if err != nil || *n != 0 {
		t.Fatal(*n, err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

// TestCutOffBuildsAreSwept: what nobody works on any more goes when a model is opened,
// also one that is built already; what somebody works on stays.
func TestCutOffBuildsAreSwept(t *testing.T) {
	opt, _ := options(t, models.Int4)
	dir := checkpoint(t, "llama2")
	prepared(t, dir, opt)
	at := func(name string) string { return filepath.Join(opt.Dir, ".tmp-"+name) }
	old, fresh, writing, claimed := at("old"), at("fresh"), at("writing"), at("claimed")
	long := time.Now().Add(-2 * time.Hour)
	for _, dir := range []string{old, fresh, writing, claimed} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, decoder.DataFile), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	defer scratch.Claim(claimed)()
	for _, path := range []string{filepath.Join(old, decoder.DataFile), old, writing, filepath.Join(claimed,
		decoder.DataFile), claimed} {
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Prepare(context.Background(), dir, opt); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{old: false, fresh: true, writing: true, claimed: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", path, err == nil, want)
		}
	}
}

func TestChecksumsAreRemembered(t *testing.T) {
	dir := checkpoint(t, "llama2")
	opt, _ := options(t, models.Int4)
	prepared(t, dir, opt)
	// A remembered checksum is believed: changing it changes the key.
	path := filepath.Join(opt.Dir, hashesFile)
	m := openChecksumCache(path)
	if len(m.entries) != 3 {
		t.Fatalf("%d checksums, want those of config.json, model.safetensors and the data", len(m.entries))
	}
	sum, err := m.sum(context.Background(), os.DirFS(dir), "config.json", filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	e := m.entries[filepath.Join(dir, "config.json")]
	e.SHA256 = strings.Repeat("0", 64)
	m.entries[filepath.Join(dir, "config.json")], m.changed = e, true
	m.save()
	if got, err := openChecksumCache(path).sum(context.Background(), os.DirFS(dir), "config.json",
		filepath.Join(dir, "config.json")); err != nil || got == sum {
		t.Errorf("the checksum was computed again: %v", err)
	}
	// A file that was touched is read again.
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, "config.json"), now, now); err != nil {
		t.Fatal(err)
	}
	m = openChecksumCache(path)
	if got, err := m.sum(context.Background(), os.DirFS(dir), "config.json",
		filepath.Join(dir, "config.json")); err != nil || got != sum {
		t.Errorf("checksum %s, %v, want %s", got, err, sum)
	}
	if m.changed {
		t.Error("the checksum of a file that was just written was remembered")
	}
	// So is one whose time was set back to what it was, where the system tells.
	if runtime.GOOS == "linux" {
		at := filepath.Join(dir, "config.json")
		then := now.Add(-time.Hour)
		if err := os.Chtimes(at, then, then); err != nil {
			t.Fatal(err)
		}
		if _, err := m.sum(context.Background(), os.DirFS(dir), "config.json", at); err != nil || !m.changed {
			t.Fatalf("not remembered: %v", err)
		}
		data, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // longer than the clock of files
		if err := errors.Join(os.WriteFile(at, bytes.Repeat([]byte(" "), len(data)), 0o644),
			os.Chtimes(at, then, then)); err != nil {
			t.Fatal(err)
		}
		if got, err := m.sum(context.Background(), os.DirFS(dir), "config.json", at); err != nil || got == sum {
			t.Errorf("checksum %s of other content, %v", got, err)
		}
		if err := os.WriteFile(at, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A broken cache of checksums is ignored.
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	prepared(t, dir, opt)
}

func TestPrepareReportsBadCheckpoints(t *testing.T) {
	opt, _ := options(t, models.FP32)
	dir := checkpoint(t, "llama2")
	weights := filepath.Join(dir, safetensors.SingleFile)
	st, err := os.Stat(weights)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(weights, st.Size()/2); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(context.Background(), dir, opt); !errors.Is(err, tensors.ErrFormat) ||
		!strings.Contains(err.Error(), "truncated") {
		t.Errorf("a truncated checkpoint gave %v", err)
	}
	if _, err := Prepare(context.Background(), t.TempDir(), opt); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder gave %v", err)
	}
	opt.Weights = "int2"
	if _, err := Prepare(context.Background(), checkpoint(t, "llama2"), opt); err == nil ||
		!strings.Contains(err.Error(), `weights must be fp32, int8 or int4 on cpu, given "int2"`) {
		t.Errorf("int2 gave %v", err)
	}
}

// TestRandomIsWrittenOnce: who finds that another process wrote the same checkpoint meanwhile takes that one.
func TestRandomIsWrittenOnce(t *testing.T) {
	root := t.TempDir()
	write := func(name, config string) string {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := filepath.Join(root, "shape")
	for _, config := range []string{"first", "second"} {
		if err := keepFirst(write(config, config), dir); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "config.json")); err != nil || string(data) != "first" {
		t.Errorf("%q, %v", data, err)
	}
	if err := keepFirst(filepath.Join(root, "none"), filepath.Join(root, "other")); err == nil {
		t.Error("nothing was renamed, and no error")
	}
	t.Setenv("TGI_CACHE", filepath.Join(root, "cache"))
	if _, err := Random("none"); err == nil || !strings.Contains(err.Error(), "is unknown") {
		t.Errorf("an unknown shape: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(root, "cache", "synth", "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDirFollowsTheEnvironment(t *testing.T) {
	t.Setenv("TGI_CACHE", "/somewhere")
	if dir, err := Dir(); err != nil || dir != filepath.Join("/somewhere", "models") {
		t.Errorf("%s, %v", dir, err)
	}
	t.Setenv("TGI_CACHE", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	user, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	if dir, err := Dir(); err != nil || dir != filepath.Join(user, "tgi", "models") {
		t.Errorf("%s, %v", dir, err)
	}
}
