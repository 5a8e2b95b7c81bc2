package terminal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminals returns both sides of a terminal: a program's, and that of who sits there.
func terminals(t *testing.T) (in, side *os.File) {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { side.Close() })
	number, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	in, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in, side
}

// TestNotes: lines go to a terminal alone, and hold no control characters of their text.
func TestNotes(t *testing.T) {
	in, side := terminals(t)
	Notes(in)("compiling a\x1b[2J")
	got := make([]byte, 64)
	n, err := side.Read(got)
	if want := "tgi: compiling a\\x1b[2J\r\n"; err != nil || string(got[:n]) != want {
		t.Errorf("%q, %v, want %q", got[:n], err, want)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if Notes(file) != nil || Notes(&strings.Builder{}) != nil {
		t.Error("what is no terminal is told something")
	}
}

// TestPasswords types at a terminal: nothing is shown, Ctrl-C ends it, and the terminal is left as it was.
func TestPasswords(t *testing.T) {
	in, side := terminals(t)
	before, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]struct {
		typed string
		err   error
	}{
		"sécret\rsecond\r": {"sécret second", nil}, "half\x03": {"", ErrInterrupted}, "\x04": {"", ErrInterrupted},
	} {
		out := person{side: side, keys: keys}
		typed, err := Passwords(in, &out, "one: ", "two: ")
		if !errors.Is(err, want.err) || strings.Join(typed, " ") != want.typed {
			t.Errorf("%q: %q, %v", keys, typed, err)
		}
		if !strings.HasPrefix(out.String(), "one: ") || strings.Contains(out.String(), "cret") ||
			strings.Contains(out.String(), "half") {
			t.Errorf("%q: shown is %q", keys, out.String())
		}
		after, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			t.Errorf("%q: the terminal is another: %v", keys, err)
		}
	}
}

// person types when they are asked.
type person struct {
	strings.Builder
	side *os.File
	keys string
}

func (p *person) Write(b []byte) (int, error) {
	if p.keys != "" {
		if _, err := p.side.WriteString(p.keys); err != nil {
			return 0, err
		}
		p.keys = ""
	}
	return p.Builder.Write(b)
}

func TestUTF8(t *testing.T) {
	for text, want := range map[string]bool{"LANG=de_DE.UTF-8": true, "LC_ALL=C LANG=de_DE.UTF-8": false, "": false,
		"LC_CTYPE=C.utf8 LANG=C": true, "LANG=de_DE.ISO-8859-1": false} {
		set := map[string]string{}
		for _, one := range strings.Fields(text) {
			name, value, _ := strings.Cut(one, "=")
			set[name] = value
		}
		if got := UTF8(func(name string) (string, bool) { v, ok := set[name]; return v, ok }); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
