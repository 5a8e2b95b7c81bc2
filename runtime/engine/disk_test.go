package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"tgi/runtime/kvdisk"
	"tgi/runtime/llm"
)

// fakeBlocks reads and writes the slots of a fake model as a cache.
type fakeBlocks struct{ m *fakeModel }

const slotBytes = 9

func (f fakeBlocks) bytes() int { return f.m.shape.BlockSize * slotBytes }

func (f fakeBlocks) ReadBlock(block int32, to []byte) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	for i, s := range f.m.slots[int(block)*f.m.shape.BlockSize:][:f.m.shape.BlockSize] {
		if !s.set {
			return errors.New("fake: reads a slot that was never written")
		}
		binary.LittleEndian.PutUint32(to[i*slotBytes:], s.token)
		binary.LittleEndian.PutUint32(to[i*slotBytes+4:], uint32(s.pos))
	}
	return nil
}

func (f fakeBlocks) WriteBlock(block int32, from []byte) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	for i := range f.m.shape.BlockSize {
		b := from[i*slotBytes:]
		f.m.slots[int(block)*f.m.shape.BlockSize+i] = slot{token: binary.LittleEndian.Uint32(b),
			pos: int32(binary.LittleEndian.Uint32(b[4:])), set: true}
	}
	return nil
}

// onDisk gives an engine of a fake model a folder for so many bytes. The folder is closed with the function.
func onDisk(t *testing.T, m *fakeModel, path string, id kvdisk.ID, limit int64) (Disk, func()) {
	t.Helper()
	f, err := kvdisk.Open(kvdisk.Options{Path: path, Limit: limit, Log: func(s string) { t.Error(s) }})
	if err != nil {
		t.Fatal(err)
	}
	io := fakeBlocks{m}
	return Disk{Space: f.Space(id, io.bytes()), Blocks: io}, func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRestartChangesNothing: requests get the same from servers that start again and again on one folder as from one
// without, whatever became of the folder in between, and find their prompts where nothing did.
func TestRestartChangesNothing(t *testing.T) {
	reqs := mixedRequests(24)
	want := alone(t, reqs)
	r := rand.New(rand.NewPCG(3, 9))
	for _, limit := range []int64{1 << 30, 9000} {
		for _, harm := range []bool{false, true} {
			path, found := t.TempDir(), 0
			for range 6 {
				blocks := 20 + r.IntN(200)
				m := newFake(blocks, 4, 120)
				disk, closeDisk := onDisk(t, m, path, kvdisk.ID{1}, limit)
				e, err := New(m, fakeCodec{}, Config{Verify: true, Disk: disk})
				if err != nil {
					t.Fatal(err)
				}
				var wait sync.WaitGroup
				for _, i := range r.Perm(len(reqs))[:12] {
					wait.Go(func() {
						got, err := generate(e, reqs[i])
						if errors.Is(err, llm.ErrTooLong) { // for so small a cache
							return
						}
						if err != nil {
							t.Errorf("request %d: %v", i, err)
						} else if err := same(got, want[i]); err != nil {
							t.Errorf("request %d: %v", i, err)
						}
					})
				}
				wait.Wait()
				if err := e.closeReason(); err != nil {
					t.Error(err)
				}
				e.Close()
				closeDisk()
				found += int(disk.Space.Stats().Read)
				if harm {
					harmFiles(t, r, path)
				}
			}
			if found == 0 {
				t.Errorf("limit %d, harm %v: nothing was read", limit, harm)
			}
		}
	}
}

// harmFiles changes, cuts or removes some files.
func harmFiles(t *testing.T, r *rand.Rand, path string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(path, "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 { // it was cut before, and nobody asked for it since
			continue
		}
		switch r.IntN(6) {
		case 0:
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		case 1:
			data = data[:r.IntN(len(data))]
		case 2:
			other, err := os.ReadFile(files[r.IntN(len(files))])
			if err != nil { // removed before
				continue
			}
			data = other
		case 3:
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPromptIsFoundAfterRestart: only what is behind the last full block is computed again; another space, salt or
// prompt finds nothing.
func TestPromptIsFoundAfterRestart(t *testing.T) {
	path := t.TempDir()
	prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 42)
	other := slices.Clone(prompt)
	other[0] ^= 1
	run := func(id kvdisk.ID, prompt []llm.Token, salt string) int {
		m := newFake(64, 4, 120)
		disk, closeDisk := onDisk(t, m, path, id, 1<<20)
		defer closeDisk()
		e, err := build(m, fakeCodec{}, Config{Verify: true, Disk: disk})
		if err != nil {
			t.Fatal(err)
		}
		e.pace.alone = longestLoad.Seconds() // computing takes longer, however busy the disk is
		go e.loop()
		defer e.Close()
		o, err := generate(e, Request{Prompt: prompt, Params: params(3), Salt: salt})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.closeReason(); err != nil {
			t.Error(err)
		}
		return o.finish[0].Cached
	}
	for i, c := range []struct {
		id     kvdisk.ID
		prompt []llm.Token
		salt   string
		want   int
	}{
		{kvdisk.ID{1}, prompt, "", 0},
		{kvdisk.ID{1}, prompt, "", 40},
		{kvdisk.ID{1}, prompt[:21], "", 20},
		{kvdisk.ID{2}, prompt, "", 0},
		{kvdisk.ID{1}, prompt, "adapter", 0},
		{kvdisk.ID{1}, other, "", 0},
		{kvdisk.ID{1}, prompt, "adapter", 40},
	} {
		if got := run(c.id, c.prompt, c.salt); got != c.want {
			t.Errorf("%d: %d tokens found, want %d", i, got, c.want)
		}
	}
}

// TestAbortWhileLoading: a request that is cancelled, or whose engine is closed, while its prompt is read leaves
// nothing.
func TestAbortWhileLoading(t *testing.T) {
	path := t.TempDir()
	prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 90)
	for round := range 20 {
		m := newFake(64, 4, 120)
		disk, closeDisk := onDisk(t, m, path, kvdisk.ID{1}, 1<<20)
		e := start(t, m, Config{Disk: disk})
		ctx, cancel := context.WithCancel(context.Background())
		st, err := e.Submit(ctx, Request{Prompt: prompt, Params: params(5)})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case round == 0:
			_, _ = collect(st, 1)
		case round%2 == 1:
			cancel()
			if _, err := readAll(st); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		default:
			e.Close()
			if _, err := readAll(st); err != nil && !errors.Is(err, llm.ErrClosed) {
				t.Error(err)
			}
		}
		e.Close()
		cancel()
		closeDisk()
	}
}

// TestBrokenEngineKeepsNothing: what an engine computed that closes itself because its books are wrong, is not kept.
func TestBrokenEngineKeepsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		why   error
		keeps bool
	}{
		"closed": {llm.ErrClosed, true}, "broken": {fmt.Errorf("%w: BUG", llm.ErrClosed), false},
	} {
		m := newFake(64, 4, 120)
		disk, closeDisk := onDisk(t, m, t.TempDir(), kvdisk.ID{1}, 1<<20)
		e, err := New(m, fakeCodec{}, Config{Disk: disk})
		if err != nil {
			t.Fatal(err)
		}
		m.before = func(llm.Step) { e.closeWith(c.why) }
		prompt := randomTokens(rand.New(rand.NewPCG(1, 2)), 42)
		st := submit(t, e, t.Context(), Request{Prompt: prompt, Params: params(5)})
		if _, err := readAll(st); !errors.Is(err, llm.ErrClosed) {
			t.Error(err)
		}
		e.Close()
		closeDisk()
		if n := disk.Space.Stats().Written; (n == 10) != c.keeps || !c.keeps && n != 0 {
			t.Errorf("%s: %d blocks were kept", name, n)
		}
	}
}
