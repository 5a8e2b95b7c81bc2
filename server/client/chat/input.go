package chat

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

// ErrInterrupted: the interrupt key was pressed.
var ErrInterrupted = errors.New("interrupted")

// input reads entries, on demand: what is typed while an answer comes stays with
// the terminal, which drops it at an interrupt.
type input struct {
	want       chan Request
	typed      chan typed
	waiting    bool // something is wanted and has not come
	interrupts <-chan os.Signal
	// show prints a prompt; it is nil where an Editor does.
	show func(prompt string)
}

// typed is what was typed, or why there is nothing.
type typed struct {
	text string
	err  error
}

// newInput calls read in a goroutine that ends with ctx, or with the program when
// it waits in a read.
func newInput(ctx context.Context, read func(Request) (string, error), interrupts <-chan os.Signal) *input {
	in := &input{want: make(chan Request), typed: make(chan typed), interrupts: interrupts}
	go func() {
		for {
			var r Request
			select {
			case r = <-in.want:
			case <-ctx.Done():
				return
			}
			text, err := read(r)
			select {
			case in.typed <- typed{text, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return in
}

// readLines reads lines of what is no terminal, or one that edits lines itself. It knows no prompts.
func readLines(r io.Reader) func(Request) (string, error) {
	lines := bufio.NewReader(r)
	return func(Request) (string, error) {
		text, err := lines.ReadString('\n')
		if text != "" {
			err = nil // the next read tells of it again
		}
		return strings.TrimRight(text, "\r\n"), err
	}
}

// read returns what is typed at a prompt, or ErrInterrupted, io.EOF, the error of
// reading or the cause of ctx's end.
func (in *input) read(ctx context.Context, r Request) (string, error) {
	if in.show != nil {
		in.show(r.Prompt)
	}
	if !in.waiting {
		select {
		case in.want <- r:
			in.waiting = true
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	select {
	case t := <-in.typed:
		in.waiting = false
		return t.text, t.err
	case <-in.interrupts:
		return "", ErrInterrupted
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// fence begins and ends a text of several lines.
const fence = `"""`

// entry is what was typed at the prompt.
type entry struct {
	text string
	// quoted texts are messages, whatever they begin with.
	quoted bool
}

// parseEntry reads what was typed so far: a line, lines that end with a backslash
// and the one after them, or all between two fences. open says that there is more
// to come.
func parseEntry(text string) (e entry, open bool) {
	if rest, quoted := strings.CutPrefix(strings.TrimLeft(text, " \t"), fence); quoted {
		inside, closed := strings.CutSuffix(strings.TrimRight(rest, " \t"), fence)
		return entry{inside, true}, !closed
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i], open = strings.CutSuffix(line, `\`)
	}
	return entry{strings.Join(lines, "\n"), false}, open
}

// entry returns what is typed at the prompt. Beside an error it has what came
// before it.
func (in *input) entry(ctx context.Context, r Request) (entry, error) {
	r.Open = func(text string) bool {
		_, open := parseEntry(text)
		return open
	}
	text := ""
	for {
		line, err := in.read(ctx, r)
		if err != nil {
			return entry{text: text + line}, err
		}
		text += line
		e, open := parseEntry(text)
		if !open {
			return e, nil
		}
		text += "\n"
		r.Prompt = r.More
	}
}

// interruptible returns a context that ends with ErrInterrupted at an
// interrupt. stop must be called, and waits.
func (in *input) interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-in.interrupts:
			cancel(ErrInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-done
	}
}
