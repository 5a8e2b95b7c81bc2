package attend

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// device runs the kernels on the processor.
type device struct {
	t   testing.TB
	in  *bufio.Writer
	out io.Reader
}

// emulate compiles the kernels as C.
func emulate(t testing.TB) *device {
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
	return &device{t, bufio.NewWriterSize(in, 1<<20), bufio.NewReaderSize(out, 1<<16)}
}

// Commands of testdata/emulate.c.
const (
	memory = iota
	write
	read
	run
)

// ask sends a command with data and reads an answer of so many bytes.
func (d *device) ask(data []byte, answer int, words ...uint64) []byte {
	d.t.Helper()
	var c [4]uint64
	copy(c[:], words)
	if err := binary.Write(d.in, binary.LittleEndian, c); err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.in.Write(data); err != nil {
		d.t.Fatal(err)
	}
	if err := d.in.Flush(); err != nil {
		d.t.Fatal(err)
	}
	b := make([]byte, answer)
	if _, err := io.ReadFull(d.out, b); err != nil {
		d.t.Fatal(err)
	}
	return b
}

// malloc returns the address of so many bytes, none of which is 0.
func (d *device) malloc(n int) uint64 {
	return binary.LittleEndian.Uint64(d.ask(nil, 8, memory, uint64(n), 0xff))
}
