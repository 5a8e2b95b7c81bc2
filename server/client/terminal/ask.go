package terminal

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// ErrInterrupted: Ctrl-C or Ctrl-D was typed instead of an answer.
var ErrInterrupted = errors.New("interrupted")

// Passwords asks for passwords at a terminal, one after the other, and shows nothing of them. Ctrl-C is read as a key:
// a program that catches its signal would go on waiting for the line.
func Passwords(in *os.File, out io.Writer, prompts ...string) (typed []string, err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, out}, "")
	for _, prompt := range prompts {
		line, err := t.ReadPassword(prompt)
		if errors.Is(err, io.EOF) {
			_, _ = io.WriteString(out, "\r\n")
			return nil, ErrInterrupted
		}
		if err != nil {
			return nil, err
		}
		typed = append(typed, line)
	}
	return typed, nil
}

// Is reports whether a stream is a file that is a terminal.
func Is(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Notes returns a function that tells who sits at a terminal what a command does, a line each; nil for other streams.
func Notes(w io.Writer) func(text string) {
	if !Is(w) {
		return nil
	}
	return func(text string) { _, _ = io.WriteString(w, "tgi: "+Line(text)+"\n") } // the command goes on without
}

// UTF8 reports whether the locale of the environment, which lookup reads, says that terminals show UTF-8.
func UTF8(lookup func(string) (string, bool)) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if text, _ := lookup(name); text != "" {
			text = strings.ReplaceAll(strings.ToLower(text), "-", "")
			return strings.Contains(text, "utf8")
		}
	}
	return false
}
