package host

import (
	"crypto/sha256"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"tgi/plugins/std"
)

// TestForgetMapped reads the built-in modules, which are a part of the program: forgetting the program's files gives
// their memory back, and they are as they were.
func TestForgetMapped(t *testing.T) {
	read := func() (sum [sha256.Size]byte) {
		h := sha256.New()
		for _, name := range []string{"jinja.wasm", "toolcalls.wasm"} {
			f, err := std.FS().Open(name)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(h, f); err != nil || n < 3<<20 {
				t.Fatalf("%s has %d bytes, %v", name, n, err)
			}
			_ = f.Close()
		}
		return [sha256.Size]byte(h.Sum(nil))
	}
	sum, before := read(), mappedBytes(t)
	forgetMapped()
	if after := mappedBytes(t); after > before-(6<<20) {
		t.Errorf("%d bytes of files are in memory, before %d", after, before)
	}
	if read() != sum {
		t.Error("the modules are not what they were")
	}
}

// mappedBytes returns how much of the files that are mapped is in memory.
func mappedBytes(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "RssFile:"); ok {
			kilobytes, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatal("no RssFile")
	return 0
}

// TestUnwritten: a range counts whose file can't be written to, and of which nothing was.
func TestUnwritten(t *testing.T) {
	const smaps = `00400000-00402000 r--p 00000000 fe:00 9986165                            /bin/tgi
Anonymous:             0 kB
00402000-01a3b000 r-xp 00002000 fe:00 9986165                            /bin/tgi
Rss:               20196 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
0440f000-04411000 r--p 0400e000 fe:00 9986165                            /bin/tgi
Anonymous:             4 kB
04411000-04516000 rw-p 04010000 fe:00 9986165                            /bin/tgi
Anonymous:             0 kB
7fae40000000-7fae40001000 r--p 00000000 00:00 0
Anonymous:             0 kB
7fae50000000-7fae50001000 r--p 00000000 fe:00 9986165                    /bin/tgi (deleted)
Anonymous:             0 kB
7fae60000000-7fae60001000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
`
	got := unwritten([]byte(smaps))
	want := []mappedRange{{0x400000, 0x402000, "/bin/tgi"}, {0x402000, 0x1a3b000, "/bin/tgi"}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%x, want %x", got, want)
	}
}
