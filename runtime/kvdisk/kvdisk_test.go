package kvdisk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

const blockBytes = 200

// chain returns the blocks of a text.
func chain(seed uint64, blocks int) []kv.Block {
	r := rand.New(rand.NewPCG(seed, 1))
	tokens := make([]llm.Token, 4*blocks+1)
	for i := range tokens {
		tokens[i] = r.Uint32()
	}
	return kv.NewRow("").Chain(tokens, 4)
}

// contents are the data of a block.
func contents(b kv.Block) []byte { return bytes.Repeat(b.Key[:], blockBytes/len(b.Key)+1)[:blockBytes] }

func open(t *testing.T, path string, limit int64) *Folder {
	t.Helper()
	f, err := Open(Options{Path: path, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// keep writes blocks and closes the folder.
func keep(t *testing.T, path string, limit int64, id ID, list ...[]kv.Block) {
	t.Helper()
	f := open(t, path, limit)
	s := f.Space(id, blockBytes)
	for _, blocks := range list {
		for _, b := range blocks {
			data := s.Buffer()
			for ; data == nil; data = s.Buffer() {
				time.Sleep(time.Millisecond)
			}
			copy(data, contents(b))
			s.Keep(b, data)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// load reads a chain and returns how many blocks it got; it fails if one has other data.
func load(t *testing.T, s *Space, blocks []kv.Block) (n int) {
	t.Helper()
	s.Load(blocks, func() []byte { return make([]byte, blockBytes) }, func(i int, data []byte) bool {
		if i != n || !bytes.Equal(data, contents(blocks[i])) {
			t.Errorf("block %d, after %d, has other data", i, n)
		}
		n++
		return true
	})
	return n
}

func TestKeepAndLoad(t *testing.T) {
	path, text := filepath.Join(t.TempDir(), "a", "b"), chain(1, 9)
	keep(t, path, 1<<20, ID{1}, text)
	f := open(t, path, 1<<20)
	s := f.Space(ID{1}, blockBytes)
	if n := s.Match(text); n != 9 || load(t, s, text) != 9 {
		t.Errorf("%d blocks match", n)
	}
	if n := f.Space(ID{2}, blockBytes).Match(text); n != 0 {
		t.Errorf("another model has %d blocks", n)
	}
	if got := f.Stats(); got.Blocks != 9 || got.Read != 9 || got.Bytes != 9*fileBytes(48, blockBytes) {
		t.Errorf("%+v", got)
	}
	err := filepath.WalkDir(path, func(at string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", at, st.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryBit: whatever bit of a file is another, and wherever it is cut, its block is not read and the file is gone.
func TestEveryBit(t *testing.T) {
	path, text := t.TempDir(), chain(1, 1)
	keep(t, path, 1<<20, ID{1}, text)
	files, _ := filepath.Glob(filepath.Join(path, "*", "*", "*"))
	if len(files) != 1 {
		t.Fatal(files)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, path, 1<<20)
	s := f.Space(ID{1}, blockBytes)
	try := func(what string, data []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(files[0]), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[0], data, 0o600); err != nil {
			t.Fatal(err)
		}
		f.put(&entry{id: ID{1}, key: text[0].Key, size: int64(len(data))})
		if n := load(t, s, text); n != 0 {
			t.Errorf("%s: it was read", what)
		}
		if _, err := os.Stat(files[0]); !errors.Is(err, os.ErrNotExist) || f.Stats().Bytes != 0 {
			t.Errorf("%s: the file is still there: %v, %+v", what, err, f.Stats())
		}
	}
	for i := range whole {
		bad := slices.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		try("a bit", bad)
		try("cut", whole[:i])
	}
	try("longer", append(slices.Clone(whole), 0))
}

func TestLimit(t *testing.T) {
	path := t.TempDir()
	size := fileBytes(48, blockBytes)
	old, young := chain(1, 5), chain(2, 5)
	keep(t, path, 7*size, ID{1}, old)
	files, _ := filepath.Glob(filepath.Join(path, "*", "*", "*"))
	for _, name := range files {
		hour := time.Now().Add(-time.Hour)
		if err := os.Chtimes(name, hour, hour); err != nil {
			t.Fatal(err)
		}
	}
	keep(t, path, 7*size, ID{2}, young)
	f := open(t, path, 7*size)
	if a, b := f.Space(ID{1}, blockBytes).Match(old), f.Space(ID{2}, blockBytes).Match(young); a != 2 || b != 5 {
		t.Errorf("%d and %d blocks are left, want the beginning of the older one: 2 and 5", a, b)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f := open(t, path, size-1); f.Stats().Blocks != 0 { // a smaller limit
		t.Errorf("%+v", f.Stats())
	}
	if left, _ := filepath.Glob(filepath.Join(path, "*", "*")); len(left) != 0 {
		t.Errorf("empty folders are left: %v", left)
	}
}

func TestOneOwner(t *testing.T) {
	path := t.TempDir()
	f := open(t, path, 100)
	if _, err := Open(Options{Path: path, Limit: 100}); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	_ = f.Close()
	open(t, path, 100)
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file, shared := filepath.Join(dir, "file"), filepath.Join(dir, "shared")
	err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(shared, 0o700), os.Chmod(shared, 0o777))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Path: file, Limit: 1}, {Path: shared, Limit: 1}, {Path: dir}} {
		if f, err := Open(o); err == nil {
			t.Errorf("%+v was opened", o)
			_ = f.Close()
		}
	}
}

// TestKilled: a process that is killed while it writes leaves only whole blocks, and what it was writing is removed.
func TestKilled(t *testing.T) {
	if path := os.Getenv("KVDISK_CHILD"); path != "" {
		for i := uint64(0); ; i++ {
			keep(t, path, 1<<30, ID{1}, chain(i, 20))
		}
	}
	path := t.TempDir()
	for round := range 8 {
		child := exec.Command(os.Args[0], "-test.run=TestKilled")
		child.Env = append(os.Environ(), "KVDISK_CHILD="+path)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for want := time.Duration(0); ; want += time.Millisecond {
			files, _ := filepath.Glob(filepath.Join(path, "*", "*", "*"))
			files = slices.DeleteFunc(files, func(f string) bool {
				return strings.HasPrefix(filepath.Base(f), tempPrefix)
			})
			if len(files) > 30*round {
				break
			}
			time.Sleep(time.Millisecond)
		}
		_ = child.Process.Kill()
		_ = child.Wait()
		f := open(t, path, 1<<30)
		s, read := f.Space(ID{1}, blockBytes), 0
		for i := range uint64(200) {
			text := chain(i, 20)
			n := s.Match(text)
			if got := load(t, s, text[:n]); got != n {
				t.Errorf("%d of %d blocks were read", got, n)
			}
			read += n
		}
		left, _ := filepath.Glob(filepath.Join(path, "*", "*", tempPrefix+"*"))
		if len(left) != 0 || f.Stats().Damaged != 0 {
			t.Errorf("left behind: %v, %+v", left, f.Stats())
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if read == 0 {
			t.Error("nothing was read")
		}
	}
}

// TestForgetWhileWriting: a block's folder is not removed as empty while the next block of it is written, nor a file
// that was written again.
func TestForgetWhileWriting(t *testing.T) {
	f := open(t, t.TempDir(), 1<<30)
	f.o.Log = func(what string) { t.Error(what) }
	s := f.Space(ID{1}, blockBytes)
	block := func(i byte) kv.Block { return kv.Block{Key: kv.Key{7, i}, Source: []byte{i}} }
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				f.forget(ID{1}, []kv.Block{block(byte(i + g))})
			}
		})
	}
	for i := range 5000 {
		b := block(byte(i))
		f.writeOne(job{space: s, block: b, data: make([]byte, blockBytes)})
	}
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, at := range f.entries {
		if _, err := os.Stat(f.path(at.Value.(*entry))); err != nil {
			t.Errorf("block %x is said to be there: %v", k.key[:2], err)
		}
	}
	if f.stats.Errors != 0 || f.stats.Written != 5000 {
		t.Errorf("%+v", f.stats)
	}
}

// TestBehind: what the writer cannot take is dropped, and nobody waits.
func TestBehind(t *testing.T) {
	f := open(t, t.TempDir(), 1<<20)
	s := f.Space(ID{1}, 64<<20) // two blocks are on their way at most
	a, b := s.Buffer(), s.Buffer()
	if a == nil || b == nil || s.Buffer() != nil {
		t.Error("memory is not bounded")
	}
	told := make(chan bool, 9)
	s.Notify(func() { told <- true })
	s.Keep(chain(1, 1)[0], a) // larger than the limit
	<-told
	if got := f.Stats(); got.Dropped != 1 || got.Blocks != 0 || s.Buffer() == nil {
		t.Errorf("%+v", got)
	}
}

// TestUnwritable: errors are counted and told once, and writing pauses.
func TestUnwritable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("as root, a folder cannot be unwritable: a file is in its place")
	}
	path, told := t.TempDir(), 0
	f, err := Open(Options{Path: path, Limit: 1 << 20, Log: func(string) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	s := f.Space(ID{1}, blockBytes)
	if err := os.WriteFile(f.spacePath(ID{1}), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b := range chain(1, 5) {
		s.Keep(b, s.Buffer())
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := f.Stats(); got.Errors != 1 || got.Dropped != 4 || told != 1 {
		t.Errorf("%+v, told %d times", got, told)
	}
}

// TestOddPath: what is in the way of some blocks keeps no others from being written.
func TestOddPath(t *testing.T) {
	path, told := t.TempDir(), 0
	f, err := Open(Options{Path: path, Limit: 1 << 20, Log: func(string) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, other := f.Space(ID{1}, blockBytes), f.Space(ID{2}, blockBytes)
	block := func(folder, i byte) kv.Block { return kv.Block{Key: kv.Key{folder, i}, Source: []byte{i}} }
	for _, odd := range []string{
		filepath.Dir(f.path(&entry{id: ID{1}, key: block(7, 0).Key})), // a file instead of a folder
		f.path(&entry{id: ID{1}, key: block(8, 0).Key}) + "/folder/in/the/way",
		f.spacePath(ID{2}),
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(odd), 0o700), os.WriteFile(odd, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put := func(s *Space, b kv.Block) { f.writeOne(job{s, b, contents(b)}) }
	for i := range byte(5) {
		put(s, block(7, i))
		put(s, block(8, i))
		put(s, block(9, i))
		put(other, block(i, i))
	}
	if got := f.Stats(); got.Blocks != 5 || got.Errors != 3 || got.Dropped != 12 || told != 1 {
		t.Errorf("%+v, told %d times", got, told)
	}
	f.mu.Lock()
	for dir := range f.odd {
		f.odd[dir] = time.Now()
	}
	f.mu.Unlock()
	put(s, block(8, 1))
	if got := f.Stats(); got.Blocks != 6 || len(f.odd) != 2 {
		t.Errorf("later: %+v, in the way of %v", got, f.odd)
	}
	// where all folders have something in their way, it is the disk's matter
	for i := range byte(failMost + 3) {
		put(s, block(7, i))
		put(other, block(i, i))
		f.mu.Lock()
		clear(f.odd)
		f.mu.Unlock()
	}
	if got := f.Stats(); got.Errors != 3+failMost || got.Blocks != 6 {
		t.Errorf("all failed: %+v", got)
	}
}

// TestDamageHealsAtOnce: where several files of a text are damaged, all of it is there again once it was computed.
func TestDamageHealsAtOnce(t *testing.T) {
	path, text := t.TempDir(), chain(1, 8)
	keep(t, path, 1<<20, ID{1}, text)
	f := open(t, path, 1<<20)
	for _, i := range []int{2, 4, 7} {
		file := f.path(&entry{id: ID{1}, key: text[i].Key, depth: text[i].Depth})
		if err := os.Truncate(file, 9); err != nil {
			t.Fatal(err)
		}
	}
	s := f.Space(ID{1}, blockBytes)
	if n := load(t, s, text); n != 2 || f.Stats().Damaged != 1 {
		t.Errorf("%d blocks were read: %+v", n, f.Stats())
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	keep(t, path, 1<<20, ID{1}, text) // what is there is not written again
	f = open(t, path, 1<<20)
	if n := load(t, f.Space(ID{1}, blockBytes), text); n != len(text) {
		t.Errorf("%d of %d blocks were read: %+v", n, len(text), f.Stats())
	}
}

// TestReadErrorCostsOneBlock: what cannot be read for now takes nothing else with it.
func TestReadErrorCostsOneBlock(t *testing.T) {
	path, text := t.TempDir(), chain(1, 8)
	keep(t, path, 1<<20, ID{1}, text)
	f := open(t, path, 1<<20)
	dir := filepath.Dir(f.path(&entry{id: ID{1}, key: text[2].Key, depth: text[2].Depth}))
	err := errors.Join(os.Rename(dir, dir+".aside"), os.WriteFile(dir, nil, 0o600)) // reading fails with ENOTDIR
	if err != nil {
		t.Fatal(err)
	}
	before := f.Stats()
	if n := load(t, f.Space(ID{1}, blockBytes), text); n > 2 {
		t.Errorf("%d blocks were read", n)
	}
	if after := f.Stats(); after.Damaged != 0 || after.Errors == before.Errors || after.Blocks != before.Blocks-1 {
		t.Errorf("%+v, before %+v", after, before)
	}
}

// FuzzDecode: no bytes but those that were written for a block are taken for it.
func FuzzDecode(f *testing.F) {
	b := chain(1, 1)[0]
	whole := append(head(ID{1}, b, contents(b)), contents(b)...)
	f.Add(whole)
	f.Add(whole[:40])
	f.Add(append(head(ID{2}, b, contents(b)), contents(b)...))
	f.Fuzz(func(t *testing.T, file []byte) {
		data := make([]byte, blockBytes)
		err := decode(bytes.NewReader(file), ID{1}, b, data)
		if err == nil && !bytes.Equal(append(head(ID{1}, b, data), data...), file[:len(whole)]) {
			t.Error("bytes that were not written were read")
		}
		if err != nil && !errors.Is(err, errDamaged) {
			t.Error(err)
		}
	})
}

// FuzzName: a file is the entry that has its name, or none.
func FuzzName(f *testing.F) {
	e := entry{id: ID{1}, key: kv.Key{0xab}, depth: 3}
	space, dir, name := e.names()
	f.Add(space, dir, name)
	f.Add(space, "AB", name)
	f.Add(space, dir, strings.Replace(name, "-3", "-+3", 1))
	f.Fuzz(func(t *testing.T, space, dir, name string) {
		e, ok := parseName(space, dir, name)
		if s, d, n := e.names(); ok && (s != space || d != dir || n != name) {
			t.Errorf("%s/%s/%s is taken for %s/%s/%s", space, dir, name, s, d, n)
		}
	})
}
