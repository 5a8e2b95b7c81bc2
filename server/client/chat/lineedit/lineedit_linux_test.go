package lineedit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"tgi/server/client/chat"
)

// asProcess is the variable that makes the test's own program read from its terminal; its value is the history's file.
const asProcess = "TGI_TEST_LINEEDIT"

func TestMain(m *testing.M) {
	if history, ok := os.LookupEnv(asProcess); ok {
		readAll(history)
		return
	}
	os.Exit(m.Run())
}

// readAll prints what the editor reads, entries and lines in turns, until it ends.
func readAll(history string) {
	e, err := New(history)
	if err != nil {
		fmt.Println("new:", err)
		return
	}
	defer e.Close()
	entry := chat.Request{
		Prompt: "> ", More: ". ",
		Open: func(text string) bool { return strings.HasSuffix(text, "+") },
		Complete: func(string) []chat.Candidate {
			return []chat.Candidate{{Text: "/help", Help: "this list"}, {Text: "/quit", Help: "leave"}}
		},
	}
	for {
		text, err := e.Read(entry)
		fmt.Printf("entry %q %v\n", text, err)
		switch {
		case errors.Is(err, chat.ErrInterrupted):
		case err != nil:
			return
		case text == "line":
			text, err := e.Read(chat.Request{Prompt: "? "})
			fmt.Printf("line %q %v\n", text, err)
		case text == "close":
			time.AfterFunc(100*time.Millisecond, func() {
				e.Close()
				state, err := unix.IoctlGetTermios(0, unix.TCGETS)
				fmt.Println("echo", err == nil && state.Lflag&unix.ECHO != 0)
				os.Exit(0)
			})
		}
	}
}

// keyboard is a terminal with the process above at it.
type keyboard struct {
	t    *testing.T
	side *os.File // the one that people sit at

	mu    sync.Mutex
	grown *sync.Cond
	text  []byte
	from  int // of the text that nothing waited for yet
}

// sitDown starts the process.
func sitDown(t *testing.T, history string) *keyboard {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(side.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(side.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), asProcess+"="+history, "TERM=xterm", "INPUTRC=/dev/null", "HOME="+t.TempDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = other, other, other
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k := &keyboard{t: t, side: side}
	k.grown = sync.NewCond(&k.mu)
	var read sync.WaitGroup
	read.Go(k.watch)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = side.Close()
		read.Wait()
	})
	return k
}

// watch keeps what is printed, and tells where the cursor is when that is asked, as terminals do.
func (k *keyboard) watch() {
	b := make([]byte, 4096)
	for {
		n, err := k.side.Read(b)
		k.mu.Lock()
		k.text = append(k.text, b[:n]...)
		k.grown.Broadcast()
		k.mu.Unlock()
		if bytes.Contains(b[:n], []byte("\x1b[6n")) {
			_, _ = k.side.WriteString("\x1b[1;3R")
		}
		if err != nil {
			return
		}
	}
}

// press types keys.
func (k *keyboard) press(keys string) {
	k.t.Helper()
	if _, err := k.side.WriteString(keys); err != nil {
		k.t.Fatal(err)
	}
}

// sees waits for a text on the screen, after what was seen before.
func (k *keyboard) sees(want string) {
	k.t.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		late = true
		k.grown.Broadcast()
	})
	defer timer.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		if at := bytes.Index(k.text[k.from:], []byte(want)); at >= 0 {
			k.from += at + len(want)
			return
		}
		if late {
			k.t.Fatalf("not on the screen: %q\nafter %q", want, k.text[k.from:])
		}
		k.grown.Wait()
	}
}

// Keys that are not letters.
const (
	enter, tab, up   = "\r", "\t", "\x1b[A"
	left, ctrlC, eof = "\x1b[D", "\x03", "\x04"
)

// letters are of one byte and of several, of one cell and of two, of one rune and of several.
const letters = "ÄÖÜß àéîõ ñ ÿ 世界 👩\u200d👩\u200d👧 e\u0301 नि"

// TestEditor types at a terminal: it edits a line, completes, goes on with further lines, recalls earlier entries, also
// those of another process, tells Ctrl-C and Ctrl-D apart, and leaves the terminal as it was.
func TestEditor(t *testing.T) {
	history := filepath.Join(t.TempDir(), "state", "history")
	k := sitDown(t, history)
	for _, step := range []struct{ keys, sees string }{
		{"", "> "},
		{"acb" + left + left + "x" + enter, `entry "axcb" <nil>`},
		{"/he" + tab + enter, `entry "/help" <nil>`},
		{"one+" + enter + "two" + enter, `entry "one+\ntwo" <nil>`},
		{up + enter, `entry "one+\ntwo" <nil>`},
		{letters + enter, fmt.Sprintf("entry %q <nil>", letters)},
		{"नि" + left + left + "世" + "x" + enter, `entry "世xनि" <nil>`},
		{"\x1b[200~two\rlines\tनि\x1b[201~" + enter, `entry "two\nlines\tनि" <nil>`}, // pasted
		{"naïve 世界" + enter, `entry "naïve 世界" <nil>`},
		{"some" + ctrlC, `entry "some" interrupted`},
		{ctrlC, `entry "" interrupted`},
		{"line" + enter, "? "},
		{"secret" + enter, `line "secret" <nil>`},
		{up + up + enter, `entry "naïve 世界" <nil>`}, // not the secret
		{eof, `entry "" EOF`},
	} {
		k.press(step.keys)
		k.sees(step.sees)
		if strings.HasSuffix(step.sees, "<nil>") || strings.HasSuffix(step.sees, "interrupted") {
			k.sees("> ") // the editor reads keys: before that a Ctrl-C is a signal
		}
	}
	text, err := os.ReadFile(history)
	if err != nil || !strings.Contains(string(text), "naïve 世界") || strings.Contains(string(text),
		"secret") || strings.Contains(string(text), "some") {
		t.Errorf("the history is %s, %v", text, err)
	}
	if info, err := os.Stat(history); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history has mode %v, %v", info.Mode(), err)
	}

	k = sitDown(t, history)
	k.sees("> ")
	k.press(up + enter)
	k.sees(`entry "naïve 世界" <nil>`)
	k.press("close" + enter)
	k.sees(`entry "close" <nil>`)
	k.sees("echo true")
}

// TestNoHistory: without a file nothing is written, and entries are recalled all the same.
func TestNoHistory(t *testing.T) {
	k := sitDown(t, "")
	k.sees("> ")
	k.press("one" + enter)
	k.sees(`entry "one" <nil>`)
	k.press(up + enter)
	k.sees(`entry "one" <nil>`)
}

// TestOpenHistory: a file that grew is cut to its last entries, and nothing else happens to one.
func TestOpenHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a", "history")
	for _, c := range []struct{ lines, want int }{{0, 0}, {19, 19}, {20, 10}, {35, 10}} {
		var text strings.Builder
		for i := range c.lines {
			fmt.Fprintf(&text, "%d\n", i)
		}
		if c.lines > 0 {
			if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := openHistory(file, 10); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil || strings.Count(string(got), "\n") != c.want || !strings.HasSuffix(text.String(), string(got)) {
			t.Errorf("%d lines became %q, %v", c.lines, got, err)
		}
	}
	if err := openHistory(t.TempDir(), 10); err == nil {
		t.Error("a folder is a history")
	}
}

// TestClose: what is no terminal is left alone.
func TestClose(t *testing.T) {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		t.Skip("standard input is a terminal")
	}
	e, err := New("")
	if err != nil || e.Close() != nil {
		t.Error(err)
	}
}
