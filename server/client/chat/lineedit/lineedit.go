// Package lineedit reads what is typed at a terminal: with a history, entries of several lines and completion. It is a
// chat.Editor and the one place that knows the library behind it.
//
// The library is reeflective/readline. It edits several lines as one entry, completes by a function, keeps a history
// in a file, follows ~/.inputrc, measures wide characters, and is maintained. Of the others, golang.org/x/term's
// Terminal and peterh/liner edit one line, the former does not tell Ctrl-C from Ctrl-D, and chzyer/readline has had no
// release since 2022. What this package changes of the library's behaviour is tested on a terminal.
package lineedit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/reeflective/readline"
	"golang.org/x/term"

	"tgi/server/client/chat"
)

// Editor reads from the terminal of the process. One goroutine reads at a time; Close may run beside it.
type Editor struct {
	entries, lines *readline.Shell // with and without history
	request        chat.Request    // the one that is being read
	before         *term.State     // of the terminal, nil where it is none
}

// Entries that the file of the history is cut to, once it holds twice as many.
const keptEntries = 1000

// New returns an editor of standard input and output, whose history is kept in a file for its user alone, or in memory
// where the name is empty.
func New(history string) (*Editor, error) {
	e := &Editor{}
	e.entries, e.lines = e.shell(), e.shell()
	if history != "" {
		if err := openHistory(history, keptEntries); err != nil {
			return nil, fmt.Errorf("history: %w", err)
		}
		source, err := readline.NewHistoryFromFile(history)
		if err != nil {
			return nil, err
		}
		e.entries.History.Add("file", source)
	}
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		state, err := term.GetState(in)
		if err != nil {
			return nil, err
		}
		e.before = state
	}
	return e, nil
}

// shell is a line editor of the request that is being read.
func (e *Editor) shell() *readline.Shell {
	s := readline.NewShell()
	s.Prompt.Primary(func() string { return e.request.Prompt })
	s.Prompt.Secondary(func() string { return e.request.More })
	s.AcceptMultiline = func(line []rune) bool { return e.request.Open == nil || !e.request.Open(string(line)) }
	s.Completer = func(line []rune, cursor int) readline.Completions { return e.complete(string(line[:cursor])) }
	insert := s.Keymap.Commands()["self-insert"]
	s.Keymap.Register(map[string]func(){"self-insert": func() {
		// The library's own keeps the first rune of a letter alone, and moves the cursor by the cells that it takes.
		if keys := s.Keys.Caller(); len(keys) > 1 || len(keys) == 1 && keys[0] >= utf8.RuneSelf {
			s.History.SkipSave()
			s.Cursor().InsertAt(keys...)
			return
		}
		insert()
	}})
	for setting, value := range map[string]bool{
		// Prompts begin lines here. To ask the terminal where the cursor is would lose what was typed meanwhile.
		"cursor-position-probe": false,
		// Letters such as ï are no keys with Meta.
		"convert-meta": false, "input-meta": true, "output-meta": true,
	} {
		if err := s.Config.Set(setting, value); err != nil {
			panic("BUG: the line editor has no such setting: " + err.Error())
		}
	}
	return s
}

// complete offers what the request knows of the text before the cursor.
func (e *Editor) complete(text string) readline.Completions {
	if e.request.Complete == nil {
		return readline.Completions{}
	}
	var pairs []string
	for _, c := range e.request.Complete(text) {
		pairs = append(pairs, c.Text, c.Help)
	}
	return readline.CompleteValuesDescribed(pairs...).NoSpace('/', '=') // what ends with these goes on
}

// Read implements chat.Editor.
func (e *Editor) Read(r chat.Request) (string, error) {
	e.request = r
	shell := e.lines
	if r.Open != nil {
		shell = e.entries
	}
	text, err := shell.Readline()
	switch {
	case errors.Is(err, readline.ErrInterrupt):
		return text, chat.ErrInterrupted
	case err != nil:
		return text, err
	}
	return text, nil
}

// Close gives the terminal back as it was, also when a Read is under way.
func (e *Editor) Close() error {
	if e.before == nil {
		return nil
	}
	return term.Restore(int(os.Stdin.Fd()), e.before)
}

// openHistory makes the file where it is missing, and cuts one that has grown to its last entries.
func openHistory(file string, keep int) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var lines [][]byte
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			lines = append(lines, line)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if len(lines) < 2*keep {
		return nil
	}
	part := file + ".part"
	if err := os.WriteFile(part, bytes.Join(lines[len(lines)-keep:], nil), 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}
