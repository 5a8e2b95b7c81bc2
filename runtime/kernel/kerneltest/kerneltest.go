// Package kerneltest runs kernels on the processor, for the tests of the packages that have some: testdata/emulate.c of
// such a package compiles its kernels as C, and answers what it is asked.
package kerneltest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Process is a program that runs kernels.
type Process struct {
	T   testing.TB
	in  *bufio.Writer
	out io.Reader
}

// Start compiles and starts the program of the package under test, which ends with the test.
func Start(t testing.TB) *Process {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: the kernels cannot be compiled for the processor")
	}
	bin := filepath.Join(t.TempDir(), "emulate")
	args := []string{"-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-ffp-contract=off",
		"-fno-strict-aliasing", "-o", bin, "testdata/emulate.c", "-lm"}
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	c := exec.Command(bin)
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	c.Stderr = os.Stderr
	if err3 := c.Start(); err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &Process{t, bufio.NewWriterSize(in, 1<<20), bufio.NewReaderSize(out, 1<<16)}
}

// Ask sends lists of numbers and reads an answer of so many bytes.
func (p *Process) Ask(answer int, lists ...any) []byte {
	p.T.Helper()
	for _, list := range lists {
		if err := binary.Write(p.in, binary.LittleEndian, list); err != nil {
			p.T.Fatal(err)
		}
	}
	if err := p.in.Flush(); err != nil {
		p.T.Fatal(err)
	}
	b := make([]byte, answer)
	if _, err := io.ReadFull(p.out, b); err != nil {
		p.T.Fatal(err)
	}
	return b
}

// Device is a Process with memory, whose program takes the commands of commands.h.
type Device struct{ *Process }

// Open starts a Device.
func Open(t testing.TB) Device {
	t.Helper()
	return Device{Start(t)}
}

// Commands of commands.h.
const (
	memory = iota
	write
	read
	run
)

// command is what a command is sent as.
func command(words ...uint64) (c [8]uint64) {
	copy(c[:], words)
	return c
}

// Malloc returns the address of so many bytes, none of which is 0.
func (d Device) Malloc(n int) uint64 {
	return binary.LittleEndian.Uint64(d.Ask(8, command(memory, uint64(n))))
}

// Write writes to memory.
func (d Device) Write(at uint64, b []byte) { d.Ask(0, command(write, at, uint64(len(b))), b) }

// Put writes a list of numbers to memory of its own; an empty one is at the address 0.
func (d Device) Put(list any) uint64 {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, list); err != nil {
		d.T.Fatal(err)
	}
	if b.Len() == 0 {
		return 0
	}
	at := d.Malloc(b.Len())
	d.Write(at, b.Bytes())
	return at
}

// Read reads n bytes.
func (d Device) Read(at uint64, n int) []byte { return d.Ask(n, command(read, at, uint64(n))) }

// Run runs kernels: what the words mean, seven at most, the program says.
func (d Device) Run(words ...uint64) { d.Ask(0, command(append([]uint64{run}, words...)...)) }

// Code returns the text of NAME.ptx behind the line that tells its source, and fails where that is not NAME.cu of now.
func Code(t testing.TB, name, ptx, source string) string {
	t.Helper()
	prelude, err := os.ReadFile("../kernel/device.h")
	if err != nil {
		t.Fatal(err)
	}
	first, code, _ := strings.Cut(ptx, "\n")
	if want := fmt.Sprintf("// %s.cu %x", name, sha256.Sum256(append(prelude, source...))); first != want {
		t.Errorf("%s.ptx was made from another %[1]s.cu: run make cuda-kernels", name)
	}
	return code
}
