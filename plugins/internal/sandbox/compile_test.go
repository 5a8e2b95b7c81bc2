package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgi/plugins/internal/sandbox/rewrite"
)

// lastFailure is the time of the last failed compilation: a remembered failure is not tried again.
func lastFailure() (last time.Time) {
	failures.Lock()
	defer failures.Unlock()
	for _, f := range failures.list {
		if f.at.After(last) {
			last = f.at
		}
	}
	return last
}

// TestBombs compiles modules that take a compiler very long: each is compiled within the limits, or refused with the
// limit's name and value.
func TestBombs(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir(), Compile: CompileLimits{Time: time.Second, Memory: MinCompileMemory}})
	list := bombs(1)
	for _, name := range []string{
		"branches, 60 parameters", "branches, one parameter", "nested loops", "ifs in a row", "one br_table",
		"functions of locals", "many constants", "deep expression", "data segments",
	} {
		if list[name] == nil {
			t.Fatalf("there is no bomb %q", name)
		}
		m, err := e.Compile(t.Context(), list[name], ModuleConfig{Name: "bomb"})
		switch {
		case err == nil:
			m.Close()
		case !errors.Is(err, ErrCompile) || !errors.Is(err, ErrModule) || !strings.HasPrefix(err.Error(), "bomb: ") ||
			!strings.Contains(err.Error(), "compile_time = 1s") &&
				!strings.Contains(err.Error(), "compile_memory = 256MiB"):
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "compile_memory") && !strings.Contains(err.Error(), " MiB ") {
			t.Errorf("%s: the error does not give the cost: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
		if strings.HasPrefix(name, "branches") && err == nil {
			t.Errorf("%s: compiled: it is not a bomb", name)
		}
		if err != nil { // it is remembered
			noted := lastFailure()
			if _, err := e.Compile(t.Context(), list[name], ModuleConfig{Name: "bomb"}); !errors.Is(err, ErrCompile) ||
				lastFailure() != noted {
				t.Errorf("%s: a second time: %v, which was noted at %v, before at %v", name, err, lastFailure(), noted)
			}
		}
	}
	left, _ := filepath.Glob(filepath.Join(e.cache, stagingPrefix+"*"))
	if len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// TestCompileBesideBomb checks that other modules compile while a bomb does, and that a caller waiting for the bomb can
// cancel.
func TestCompileBesideBomb(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir(), Compile: CompileLimits{Time: time.Minute}})
	bomb := bombs(1)["branches, one parameter"]
	ctx, leave := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs { // the same one, and one that is larger
		wait.Go(func() {
			_, errs[i] = e.Compile(ctx, bombs(1 + i%2)["branches, one parameter"], ModuleConfig{Name: "bomb"})
		})
	}
	compile(t, e, void(), ModuleConfig{Name: "small"})
	compile(t, e, void(opNop), ModuleConfig{Name: "small"})
	leave()
	wait.Wait()
	for _, err := range errs {
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrModule) {
			t.Errorf("a bomb that nobody waits for: %v", err)
		}
	}
	if _, err := e.Compile(ctx, bomb, ModuleConfig{Name: "bomb"}); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that has ended: %v", err)
	}
}

// TestCompileTimeout: the clock ends a compilation that waits for a processor.
func TestCompileTimeout(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir(), Compile: CompileLimits{Time: time.Minute, Timeout: time.Second}})
	_, err := e.Compile(t.Context(), bombs(1)["branches, one parameter"], ModuleConfig{Name: "bomb"})
	if !errors.Is(err, ErrCompile) || !strings.Contains(err.Error(), "compile_timeout = 1s") {
		t.Error(err)
	}
	if _, err := New(Config{Compile: CompileLimits{Time: time.Millisecond}}); err == nil {
		t.Error("a limit that no module can keep is accepted")
	}
}

// warnings collects an engine's warnings.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) add(what, module string, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, what+": "+module+": "+why.Error())
}

// TestCache: compiled code is kept on disk and found again; a damaged file is noticed, does no harm, and is replaced.
// What is found is as what was compiled.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	var told warnings
	e := engine(t, Config{CacheDir: dir, Warn: told.add})
	wasm := guestFile(t, "walk.wasm")
	check := func(what string) {
		t.Helper()
		if got := treeAlone(t, e, wasm); got != 32 {
			t.Errorf("%s: tree(5) = %d", what, got)
		}
	}
	check("new")
	entries, err := os.ReadDir(e.cache)
	if err != nil || len(entries) != 1 || !strings.Contains(e.cache, "wazero-"+engineVersion) {
		t.Fatalf("cache %s holds %v, %v", e.cache, entries, err)
	}
	entry := filepath.Join(e.cache, entries[0].Name())
	made := func() os.FileInfo {
		info, err := os.Stat(entry)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	files := func() (list []string) {
		_ = filepath.Walk(entry, func(path string, fi os.FileInfo, err error) error {
			if err == nil && fi.Mode().IsRegular() && fi.Name() != "code.bin" { // see TestMappedCode
				list = append(list, path)
			}
			return nil
		})
		return list
	}()
	if len(files) != 5 { // machine code, hollow module, data, information, manifest
		t.Fatalf("files %q", files)
	}
	intact := func() bool {
		_, err := readEntry(entry)
		return err == nil
	}
	for _, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list := [][]byte{append(slices.Clone(whole), 1)}
		if len(whole) > 0 {
			flipped := slices.Clone(whole)
			flipped[len(flipped)/2] ^= 1
			list = append(list, whole[:len(whole)/2], flipped, nil)
		}
		for _, damaged := range list {
			before := len(told.list)
			if err := os.WriteFile(file, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			check("damaged")
			if !intact() || len(told.list) != before+1 {
				t.Errorf("%s of %d bytes: %d warnings, intact %v", filepath.Base(file), len(damaged),
					len(told.list)-before, intact())
			}
			healed := made()
			check("healed")
			if !os.SameFile(healed, made()) || len(told.list) != before+1 {
				t.Errorf("compiled again after it was replaced")
			}
		}
	}
	mod, err := os.ReadFile(filepath.Join("..", "..", "..", "go.mod"))
	if err != nil || !strings.Contains(string(mod), "github.com/tetratelabs/wazero "+engineVersion) {
		t.Errorf("go.mod does not require wazero %s: engineVersion is part of the cache's key", engineVersion)
	}
}

// TestCacheManifest: a folder is used if its manifest names the files that belong there, and no others.
func TestCacheManifest(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	treeAlone(t, e, guestFile(t, "walk.wasm"))
	entries, err := os.ReadDir(e.cache)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	dir := filepath.Join(e.cache, entries[0].Name())
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(e.cache, "outside")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := digest(outside)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(manifest){
		"as it was":        func(manifest) {},
		"no hollow module": func(m manifest) { delete(m, hollowFile) },
		"no information":   func(m manifest) { delete(m, infoFile) },
		"one more":         func(m manifest) { m["more"] = sum },
		"one outside":      func(m manifest) { delete(m, infoFile); m["../outside"] = sum },
		"nothing":          func(m manifest) { clear(m) },
		"another length":   func(m manifest) { m[infoFile] = sealed{m[infoFile].Bytes + 1, m[infoFile].SHA256} },
		"another checksum": func(m manifest) { m[infoFile] = sealed{m[infoFile].Bytes, m[hollowFile].SHA256} },
		"no machine code":  func(m manifest) { m["none"] = sum; maps.DeleteFunc(m, inFolder) },
	} {
		var m manifest
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		changed, err := json.Marshal(m)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, manifestFile), changed, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readEntry(dir); (err == nil) != (name == "as it was") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDamage: what the system says of a file does not make an entry of the cache damaged; that one is missing or cut
// does.
func TestDamage(t *testing.T) {
	var bad *damage
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.EACCES,
		syscall.EINTR, context.Canceled} {
		if errors.As(readError(&os.PathError{Op: "open", Path: "x", Err: err}), &bad) {
			t.Errorf("damage: %v", err)
		}
	}
	for _, err := range []error{syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, io.ErrUnexpectedEOF} {
		if !errors.As(readError(&os.PathError{Op: "open", Path: "x", Err: err}), &bad) {
			t.Errorf("no damage: %v", err)
		}
	}
}

// TestCacheUnread: an entry that can't be read is no reason to remove it, and is replaced when there is another.
func TestCacheUnread(t *testing.T) {
	var told warnings
	e := engine(t, Config{CacheDir: t.TempDir(), Warn: told.add})
	wasm := guestFile(t, "walk.wasm")
	treeAlone(t, e, wasm)
	list, err := filepath.Glob(filepath.Join(e.cache, "*"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	manifest := filepath.Join(list[0], manifestFile)
	if err := errors.Join(os.Remove(manifest), os.Symlink(manifestFile, manifest)); err != nil {
		t.Fatal(err)
	}
	if found := e.lookUp(opening{key: filepath.Base(list[0])}); found != nil { // too many links
		t.Fatal("a file that links to itself is read")
	}
	if _, err := os.Lstat(manifest); err != nil {
		t.Errorf("what could not be read: %v", err)
	}
	for range 2 {
		if got := treeAlone(t, e, wasm); got != 32 {
			t.Errorf("tree(5) = %d", got)
		}
	}
	const unread = "file of the compilation cache not used: "
	if len(told.list) != 2 || !strings.HasPrefix(told.list[0], unread) || !strings.HasPrefix(told.list[1], unread) {
		t.Errorf("told %q", told.list)
	}
	if _, err := readEntry(list[0]); err != nil {
		t.Errorf("in its place: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(e.cache, stagingPrefix+"*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// inFolder reports whether a file of a manifest is the engine's, which is in a folder of its own.
func inFolder(name string, _ sealed) bool { return strings.Contains(name, "/") }

// treeAlone loads walk.wasm, calls tree(5) and closes all, so that the next one finds nothing in use.
func treeAlone(t *testing.T, e *Engine, wasm []byte) (got uint64) {
	t.Helper()
	m, err := e.Compile(t.Context(), wasm, ModuleConfig{Name: "walk"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	in, err := m.New(Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	return call1(t, in, "tree", 5)
}

// TestCacheWithoutRoom checks that without a writable cache modules are compiled elsewhere, with a warning.
func TestCacheWithoutRoom(t *testing.T) {
	var told warnings
	e := engine(t, Config{CacheDir: t.TempDir(), Warn: told.add})
	if err := errors.Join(os.RemoveAll(e.cache), os.WriteFile(e.cache, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := treeAlone(t, e, guestFile(t, "walk.wasm")); got != 32 {
			t.Errorf("tree(5) = %d", got)
		}
	}
	if len(told.list) != 2 || !strings.HasPrefix(told.list[0], "compiled module not kept: walk: "+e.cache+": ") {
		t.Errorf("told %q", told.list)
	}
}

// TestSweep checks that files of killed processes are removed at the next start, and folders in use are not.
func TestSweep(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	alive, err := newStaging(e.cache)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.remove()
	killed, err := newStaging(e.cache)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(killed.lock.Close(), os.WriteFile(filepath.Join(killed.path, "half"), []byte("x"),
		0o600)); err != nil {
		t.Fatal(err)
	}
	sweep(e.cache)
	if _, err := os.Stat(alive.path); err != nil {
		t.Errorf("a folder in use was removed: %v", err)
	}
	if _, err := os.Stat(killed.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files of a killed process: %v", err)
	}
}

// TestWorkerArguments checks that only a worker's arguments make a process a worker.
func TestWorkerArguments(t *testing.T) {
	want := workerJob{bytes: 77, cpu: 10 * time.Second, memory: 1 << 30}
	if got, ok := readJob(want.args()); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, args := range [][]string{nil, {workerName}, {"tgi", workerMode, "1", "1", "1"}, {workerName, workerMode, "1",
		"1"}, {workerName, workerMode, "x", "1", "1"}} {
		if _, ok := readJob(args); ok {
			t.Errorf("%q make a worker", args)
		}
	}
}

// TestCompileBegunAnew: a compilation that was ended, because it kept others waiting, and begins anew finds nothing of
// what the worker before it left in the folder, however far that was.
func TestCompileBegunAnew(t *testing.T) {
	wasm := bombs(1)["data segments"]
	if wasm == nil {
		t.Fatal("no module")
	}
	wasm, _, err := rewrite.Rewrite(wasm, rewrite.Limits{}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	first := t.TempDir()
	limits := CompileLimits{}.WithDefaults()
	if err := compileInWorker(t.Context(), first, wasm, limits); err != nil {
		t.Fatal(err)
	}
	code, err := compiledFile(first)
	if err != nil {
		t.Fatal(err)
	}
	engineDir := filepath.Dir(code)
	for what, left := range map[string]string{
		"file that the engine writes": filepath.Join(filepath.Base(engineDir), "abc.123.tmp"),
		"machine code under its name": filepath.Join(filepath.Base(engineDir), filepath.Base(code)),
		"folder for the name":         filepath.Join("named", "x"),
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, left)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
				os.WriteFile(path, []byte("cut"), 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := compileInWorker(t.Context(), dir, wasm, limits); err != nil {
				t.Fatal(err)
			}
			if got, err := compiledFile(dir); err != nil || filepath.Base(got) != filepath.Base(code) {
				t.Errorf("%q, %v; %q wanted", got, err, code)
			}
		})
	}
}

// TestCompileNoPlace: that no folder takes a compiled module is no fault of the module, and its error says so.
func TestCompileNoPlace(t *testing.T) {
	e := engine(t, Config{CacheDir: t.TempDir()})
	none := filepath.Join(t.TempDir(), "none")
	e.cache, e.shared = none, none
	t.Setenv("TMPDIR", none)
	_, err := e.Compile(t.Context(), bombs(1)["data segments"], ModuleConfig{Name: "sound"})
	if !errors.Is(err, ErrNoPlace) || errors.Is(err, ErrModule) ||
		!strings.HasPrefix(err.Error(), "sound: there is no place for the compiled module: "+none+": ") {
		t.Error(err)
	}
}

// TestCompiledNotLoaded: what is compiled of a module and can't be loaded, in whatever folder, is refused for what is
// wrong with it, and no other folder is tried.
func TestCompiledNotLoaded(t *testing.T) {
	var told warnings
	e := engine(t, Config{CacheDir: t.TempDir(), Warn: told.add})
	out, info, err := rewrite.Rewrite(bombs(1)["data segments"], rewrite.Limits{}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	// Of a function with a parameter of no type that the engine knows there is no machine code.
	odd := []HostFunc{{Module: "env", Name: "odd", Sig: Signature{Params: []rewrite.ValueType{1}}}}
	err = e.compileAnew(t.Context(), &compiled{info: info}, out,
		opening{name: "odd", key: "odd", limits: CompileLimits{}.WithDefaults()}, odd)
	if err == nil || errors.Is(err, ErrNoPlace) || !strings.HasPrefix(err.Error(), "load what was compiled: ") ||
		len(told.list) > 0 {
		t.Errorf("%v, told %q", err, told.list)
	}
}

// TestWhoseFault: of what goes wrong when a module is compiled or loaded, a folder is at fault for its files alone.
func TestWhoseFault(t *testing.T) {
	for _, err := range []error{
		&storeError{"compilation cache: no folder"}, errNotCompiled,
		fmt.Errorf("x: %w", &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}),
		&os.LinkError{Op: "rename", Old: "x", New: "y", Err: syscall.EROFS},
		errors.New("compilationcache: checksum mismatch (expected 1, got 2)"),
	} {
		if word := wordOf(err); word != workerStore {
			t.Errorf("%v: %s", err, word)
		}
	}
	for _, err := range []error{
		errors.New("invalid function[0]: unknown instruction"), errors.New("BUG: the compiler panicked: nil"),
		errors.New("compilationcache: error mmapping executable (len=9): cannot allocate memory"),
	} {
		if word := wordOf(err); word != workerRefuse {
			t.Errorf("%v: %s", err, word)
		}
	}
}

// TestCompilingIsTold: who waits learns of what is compiled, and of nothing that the cache has.
func TestCompilingIsTold(t *testing.T) {
	var told []string
	e := engine(t, Config{CacheDir: t.TempDir(), Compiling: func(module string) { told = append(told, module) }})
	for range 2 {
		treeAlone(t, e, guestFile(t, "walk.wasm"))
	}
	if !slices.Equal(told, []string{"walk"}) {
		t.Errorf("told of %q", told)
	}
}
