package chat

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

// errInterrupted: the interrupt key was pressed.
var errInterrupted = errors.New("interrupted")

// input reads lines, on demand: what is typed while an answer comes stays with
// the terminal, which drops it at an interrupt.
type input struct {
	want       chan struct{}
	lines      chan line
	waiting    bool // a line is wanted and has not come
	interrupts <-chan os.Signal
}

// line is one line without its end, or why there is none.
type line struct {
	text string
	err  error
}

// newInput reads r in a goroutine that ends with ctx, or with the program when
// it waits in a read.
func newInput(ctx context.Context, r io.Reader, interrupts <-chan os.Signal) *input {
	in := &input{want: make(chan struct{}), lines: make(chan line), interrupts: interrupts}
	go func() {
		lines := bufio.NewReader(r)
		for {
			select {
			case <-in.want:
			case <-ctx.Done():
				return
			}
			text, err := lines.ReadString('\n')
			if text != "" {
				err = nil // the next read tells of it again
			}
			select {
			case in.lines <- line{strings.TrimRight(text, "\r\n"), err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return in
}

// line returns the next line, or errInterrupted, io.EOF, the error of reading
// or the cause of ctx's end.
func (in *input) line(ctx context.Context) (string, error) {
	if !in.waiting {
		select {
		case in.want <- struct{}{}:
			in.waiting = true
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	select {
	case l := <-in.lines:
		in.waiting = false
		return l.text, l.err
	case <-in.interrupts:
		return "", errInterrupted
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

// entry returns what is typed at the prompt: a line, lines that end with a
// backslash and the one after them, or all between two fences. more is called
// before each line but the first.
func (in *input) entry(ctx context.Context, more func()) (entry, error) {
	first, err := in.line(ctx)
	if err != nil {
		return entry{}, err
	}
	var lines []string
	rest, quoted := strings.CutPrefix(strings.TrimLeft(first, " \t"), fence)
	if !quoted {
		rest = first
	}
	for {
		text, open := strings.CutSuffix(rest, `\`)
		if quoted {
			before, closed := strings.CutSuffix(strings.TrimRight(rest, " \t"), fence)
			if text, open = before, !closed; open {
				text = rest
			}
		}
		if lines = append(lines, text); !open {
			return entry{strings.Join(lines, "\n"), quoted}, nil
		}
		more()
		if rest, err = in.line(ctx); err != nil {
			return entry{}, err
		}
	}
}

// interruptible returns a context that ends with errInterrupted at an
// interrupt. stop must be called, and waits.
func (in *input) interruptible(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-in.interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-done
	}
}
