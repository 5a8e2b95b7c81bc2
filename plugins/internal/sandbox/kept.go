package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// What a guest is after Init follows from the module, from what it asks the host, and from nothing else: its clock
// stands still, and its random numbers are those of the lease. So the cache keeps that state, in folders beside those
// of modules: the pages of the memory that are not zero, and everything else in a file of JSON. A guest that printed
// something is not kept, because its lines would be missing.

// Keep has a pool keep the state after Init in the engine's cache, and begin with what is kept there.
type Keep struct {
	// Key is all that the state depends on beside the module and its limits.
	Key string
	// Note is called after Init and returns what is to be kept beside the state, nil where keeping it is not worth
	// while. Take is called in place of Init, with that and the size of the memory; its error says why the state can't
	// be one that Note described: it is removed, and Init is run.
	Note func() []byte
	Take func(note []byte, memory uint64) error
}

// The files of a folder, and how many such folders there are at most in a cache.
const (
	keptPrefix = "state-"
	stateFile  = "state.json"
	memoryFile = "memory.bin"
	maxKept    = 32
	// keptShare is the part of a cache that states may have, and one of them half of that: a module that has to be
	// compiled again costs more than a state.
	keptShare = 4
)

// keptState is the file of JSON.
type keptState struct {
	Size    uint64      `json:"size"` // of the memory
	Globals [][2]uint64 `json:"globals"`
	Slept   uint64      `json:"slept"`
	Parts   []keptPart  `json:"parts"` // of the memory, in the order of the other file
	Note    []byte      `json:"note"`
}

// keptPart is a part of the memory that is not zero.
type keptPart struct {
	At    uint64 `json:"at"`
	Bytes uint64 `json:"bytes"`
}

// keptPath returns the folder of a state, "" where none is kept.
func (m *Module) keptPath(k *Keep) string {
	if k == nil || m.engine.cache == "" || m.info.HiddenState != "" {
		return ""
	}
	sum := sha256.Sum256([]byte(keyOf(m.compiled.key) + "\x00" + k.Key))
	return filepath.Join(m.engine.cache, keptPrefix+hex.EncodeToString(sum[:]))
}

// takeKept returns the state that is kept, nil where there is none that can be used. One that is damaged is removed.
func (m *Module) takeKept(k *Keep) (*snapshot, error) {
	path := m.keptPath(k)
	if path == "" {
		return nil, nil
	}
	if _, err := os.Stat(path); err != nil {
		return nil, nil
	}
	s, err := m.readKept(path, k)
	if errors.Is(err, ErrMemory) {
		return nil, err // Init would need as much
	}
	if err != nil {
		m.engine.notRead(path, m.name, err)
		return nil, nil
	}
	touch(path)
	return s, nil
}

// readKept makes a snapshot of what is in a folder.
func (m *Module) readKept(path string, k *Keep) (*snapshot, error) {
	files, err := readManifest(path, stateFile, memoryFile)
	if err != nil {
		return nil, err
	}
	text, err := readSealed(filepath.Join(path, stateFile), files[stateFile])
	if err != nil {
		return nil, err
	}
	var state keptState
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, damaged("%s: %w", stateFile, err)
	}
	if err := m.checkKept(&state); err != nil {
		return nil, err
	}
	s, err := m.newSnapshot(state.Size, state.Globals, state.Slept, func(put func(uint64, []byte) error) error {
		return readMemory(filepath.Join(path, memoryFile), files[memoryFile], state.Parts, put)
	})
	if err != nil {
		return nil, err
	}
	if err := k.Take(state.Note, state.Size); err != nil {
		m.freeSnapshot(s)
		return nil, damaged("%s: %w", stateFile, err)
	}
	return s, nil
}

// readMemory reads the parts of a memory that are in a file.
func readMemory(path string, want sealed, parts []keptPart, put func(at uint64, b []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return readError(err)
	}
	defer f.Close()
	h := sha256.New()
	some := make([]byte, 256<<10)
	for _, p := range parts {
		for at, end := p.At, p.At+p.Bytes; at < end; {
			b := some[:min(uint64(len(some)), end-at)]
			if _, err := io.ReadFull(f, b); err != nil {
				return readError(fmt.Errorf("%s: %w", memoryFile, err))
			}
			h.Write(b)
			if err := put(at, b); err != nil {
				return err
			}
			at += uint64(len(b))
		}
	}
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("%s: %w", memoryFile, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != want.SHA256 {
		return damaged("%s does not agree with %s", memoryFile, manifestFile)
	}
	return nil
}

// checkKept returns why a state is none of the module's instances.
func (m *Module) checkKept(s *keptState) error {
	pages := s.Size / pageBytes
	most := min(uint64(m.pages), uint64(m.info.MemoryMax))
	if s.Size%pageBytes != 0 || pages > most || pages < uint64(m.info.MemoryMin) || !m.info.HasMemory && s.Size > 0 {
		return damaged("%s: a memory of %d bytes", stateFile, s.Size)
	}
	if len(s.Globals) != len(m.info.Globals) {
		return damaged("%s: %d globals, the module has %d", stateFile, len(s.Globals), len(m.info.Globals))
	}
	end := uint64(0)
	for _, p := range s.Parts {
		if p.Bytes > s.Size || p.At > s.Size-p.Bytes {
			return damaged("%s: %d bytes at 0x%x, the memory has %d", stateFile, p.Bytes, p.At, s.Size)
		}
		if p.At < end {
			return damaged("%s: %d bytes at 0x%x, those before end at 0x%x", stateFile, p.Bytes, p.At, end)
		}
		end = p.At + p.Bytes
	}
	return nil
}

// keepState keeps the state of an instance after Init, of which s is the snapshot. That it can't be kept costs time at
// the next start and nothing else.
func (m *Module) keepState(k *Keep, in *Instance, s *snapshot) {
	path := m.keptPath(k)
	if path == "" || in.said {
		return
	}
	note := k.Note()
	if note == nil {
		return
	}
	state := keptState{Size: s.size, Globals: s.globals, Slept: s.slept, Note: note}
	memory := in.memoryBytes()
	for at, bytes := range nonZero(memory) {
		state.Parts = append(state.Parts, keptPart{at, bytes})
	}
	if err := m.engine.writeKept(path, &state, memory); err != nil {
		m.engine.warn("state of a plugin not kept", m.name, err)
	}
}

func (e *Engine) writeKept(path string, state *keptState, memory []byte) error {
	size := int64(0)
	for _, p := range state.Parts {
		size += int64(p.Bytes)
	}
	if e.cacheBytes > 0 && size > e.cacheBytes/keptShare/2 {
		return nil
	}
	s, err := newStaging(e.cache)
	if err != nil {
		return err
	}
	defer s.remove()
	text, err := json.Marshal(state)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.path, stateFile), text, 0o600)
	}
	if err == nil {
		err = writeParts(filepath.Join(s.path, memoryFile), state.Parts, memory)
	}
	if err == nil {
		err = s.writeManifest(stateFile, memoryFile)
	}
	if err != nil {
		return err
	}
	e.trimKept(size)
	if err := s.place(path); err != nil {
		return err
	}
	e.trim()
	return nil
}

func writeParts(path string, parts []keptPart, memory []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := f.Write(memory[p.At:][:p.Bytes]); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// trimmingKept is held by whoever makes room for a state.
var trimmingKept sync.Mutex

// trimKept makes room for one more state of so many bytes: neither settings that change often nor guests with much
// memory may push modules out of the cache.
func (e *Engine) trimKept(size int64) {
	trimmingKept.Lock()
	defer trimmingKept.Unlock()
	entries := slices.DeleteFunc(cacheEntries(filepath.Dir(e.cache)), func(x cacheEntry) bool {
		return !strings.HasPrefix(filepath.Base(x.path), keptPrefix)
	})
	slices.SortFunc(entries, func(a, b cacheEntry) int { return a.used.Compare(b.used) })
	for _, x := range entries {
		size += x.bytes
	}
	for len(entries) >= maxKept || e.cacheBytes > 0 && size > e.cacheBytes/keptShare && len(entries) > 0 {
		_ = os.RemoveAll(entries[0].path)
		size -= entries[0].bytes
		entries = entries[1:]
	}
}

// memoryBytes is the guest's memory, nil where it has none.
func (in *Instance) memoryBytes() []byte {
	if in.memory == nil {
		return nil
	}
	return in.memory.bytes()
}
