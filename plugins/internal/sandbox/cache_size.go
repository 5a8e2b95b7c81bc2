package sandbox

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// cacheEntry is what the cache has of one module.
type cacheEntry struct {
	path  string
	bytes int64
	used  time.Time
}

// trimming is held by whoever makes room in a cache of this process.
var trimming sync.Mutex

// trim removes what was used longest ago from the cache, until it is within its limit. What other versions of this
// program keep beside it counts and goes too. The entry that was used last stays in any case.
func (e *Engine) trim() {
	if e.cache == "" || e.cacheBytes == 0 {
		return
	}
	trimming.Lock()
	defer trimming.Unlock()
	entries := cacheEntries(filepath.Dir(e.cache))
	slices.SortFunc(entries, func(a, b cacheEntry) int {
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path))
	})
	sum := int64(0)
	for _, x := range entries {
		sum += x.bytes
	}
	for len(entries) > 1 && sum > e.cacheBytes {
		x := entries[0]
		entries = entries[1:]
		if err := os.RemoveAll(x.path); err != nil {
			e.warn("compiled module not removed from the full cache", filepath.Base(x.path), err)
			continue
		}
		sum -= x.bytes
		if dir := filepath.Dir(x.path); dir != e.cache {
			_ = os.Remove(dir) // succeeds where nothing else is left of that version
		}
	}
}

// cacheEntries lists what is in the folders of all versions below root. What is being filled is left out.
func cacheEntries(root string) (list []cacheEntry) {
	versions, _ := os.ReadDir(root)
	for _, v := range versions {
		if !v.IsDir() || !strings.HasPrefix(v.Name(), "compiled") && !strings.HasPrefix(v.Name(), "rewrite") {
			continue
		}
		dir := filepath.Join(root, v.Name())
		entries, _ := os.ReadDir(dir)
		for _, d := range entries {
			info, err := d.Info()
			if err != nil || strings.HasPrefix(d.Name(), stagingPrefix) {
				continue
			}
			path := filepath.Join(dir, d.Name())
			list = append(list, cacheEntry{path, bytesBelow(path), info.ModTime()})
		}
	}
	return list
}

// bytesBelow sums up the files of a folder. What can't be read counts nothing.
func bytesBelow(path string) (sum int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// touch notes that an entry of the cache was used.
func touch(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now) // else it goes sooner
}
