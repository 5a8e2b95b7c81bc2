package kvdisk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tgi/runtime/kv"
	"tgi/runtime/regular"
)

// TestPipe: a pipe or a link in a block's place holds nobody up, and is removed.
func TestPipe(t *testing.T) {
	for name, place := range map[string]func(path string) error{
		"pipe": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"link": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		path, text := t.TempDir(), chain(1, 1)
		keep(t, path, 1<<20, ID{1}, text)
		f := open(t, path, 1<<20)
		files, _ := filepath.Glob(filepath.Join(path, "*", "*", "*"))
		if err := errors.Join(os.Remove(files[0]), place(files[0])); err != nil {
			t.Fatal(err)
		}
		done := make(chan int)
		go func() { done <- load(t, f.Space(ID{1}, blockBytes), text) }()
		select {
		case n := <-done:
			if _, err := os.Lstat(files[0]); n != 0 || !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %d blocks were read, %v", name, n, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it waits", name)
		}
	}
}

// TestLinkedLock: the lock is made in the folder, not where a link leads to.
func TestLinkedLock(t *testing.T) {
	path := t.TempDir()
	outside := filepath.Join(t.TempDir(), "file")
	if err := os.Symlink(outside, filepath.Join(path, lockName)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(Options{Path: path, Limit: 1})
	if err == nil {
		f.Close()
	}
	if !errors.Is(err, regular.ErrOther) {
		t.Errorf("it was opened, or not for this: %v", err)
	}
	if _, err := os.Lstat(outside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made elsewhere: %v", err)
	}
}

// TestForeignFolder: a folder in the folder that nobody may read, as there is one at the root of a disk, is left alone.
func TestForeignFolder(t *testing.T) {
	const nobody = 65534
	path := t.TempDir()
	foreign := filepath.Join(path, "lost+found")
	err := errors.Join(os.Mkdir(foreign, 0o700), os.Chmod(filepath.Dir(path), 0o755), os.Chmod(foreign, 0))
	if os.Getuid() == 0 { // who may read all
		err = errors.Join(err, os.Chown(path, nobody, nobody))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for _, of := range []func(int) (int, error){unix.SetfsgidRetGid, unix.SetfsuidRetUid} {
			_, no := of(nobody)
			err = errors.Join(err, no)
			defer func() { _, _ = of(0) }()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadDir(foreign); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("the test reads it: %v", err)
	}
	f, err := Open(Options{Path: path, Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestFull: a disk that is full costs as many blocks that were not used for long as the new one takes. Where that is
// not enough, as others fill the disk, it costs few of them, leaves no part of a file, is told of once, and nothing is
// written for a while.
func TestFull(t *testing.T) {
	path, told := t.TempDir(), 0
	f, err := Open(Options{Path: path, Limit: 1 << 20, Log: func(string) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 20 << 10 // more than slack
	s := f.Space(ID{1}, size)
	put := func(b kv.Block) { f.writeOne(job{s, b, make([]byte, size)}) }
	text := chain(1, 20)
	for _, b := range text {
		put(b)
	}
	full := func(enough int64) func(temp *os.File, id ID, b kv.Block, data []byte) error {
		return func(temp *os.File, id ID, b kv.Block, data []byte) error {
			if f.Stats().Evicted >= enough {
				return write(temp, id, b, data)
			}
			_, err := temp.Write(data[:7])
			return errors.Join(err, temp.Close(), &fs.PathError{Op: "write", Path: temp.Name(), Err: unix.ENOSPC})
		}
	}
	more := chain(2, 5)
	f.fill = full(1)
	put(more[0])
	if got := f.Stats(); got.Errors != 0 || got.Evicted != 1 || got.Dropped != 0 || got.Blocks != 20 || told != 0 {
		t.Errorf("one is enough: %+v, told %d times", got, told)
	}
	if s.Has(text[0].Key) || !s.Has(text[1].Key) {
		t.Error("another than the oldest is gone")
	}
	f.fill = full(1000)
	put(more[1])
	f.fill = write
	put(more[2]) // nothing is tried so soon
	if got := f.Stats(); got.Errors != 1 || got.Evicted != 3 || got.Dropped != 1 || got.Blocks != 18 || told != 1 {
		t.Errorf("none is enough: %+v, told %d times", got, told)
	}
	if left, _ := filepath.Glob(filepath.Join(path, "*", "*", "*")); len(left) != 18 {
		t.Errorf("files are left: %v", left)
	}
	f.mu.Lock()
	f.resume = time.Now()
	f.mu.Unlock()
	put(more[3])
	if got := f.Stats(); got.Blocks != 19 || got.Errors != 1 {
		t.Errorf("later: %+v", got)
	}
}
