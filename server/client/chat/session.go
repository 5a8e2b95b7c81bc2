package chat

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Options of a conversation.
type Options struct {
	// Client asks the model.
	Client *Client
	// In is what is typed. A read that waits when the conversation is over is
	// left waiting.
	In io.Reader
	// Editor reads instead of In; nil for none. Out must be its terminal.
	Editor Editor
	// Out gets the answers, Notes everything around them, Errors what went wrong.
	Out, Notes, Errors io.Writer
	// Interrupts are presses of the interrupt key; nil for none.
	Interrupts <-chan os.Signal
	// Terminal says that Out is a terminal: reasoning and speed are shown, and
	// what would steer the terminal is made visible; on a pipe answers stay as
	// they are. Colour allows styles on a terminal.
	Terminal, Colour bool
	// System is the system prompt, empty for none.
	System string
	// Settings are further members of requests, by name.
	Settings map[string]json.RawMessage
	// Members are those that Settings, and what is set later, may have.
	Members Members

	now func() time.Time // tests fix it
}

// session is one conversation.
type session struct {
	screen
	client   *Client
	id       string // of the conversation, for routers; another one begins where nothing of this one is left
	in       *input
	now      func() time.Time
	messages []Message // the system prompt, if there is one, is the first
	tools    tools
	settings map[string]json.RawMessage
	members  Members
	// dropped are the messages that the last request ended with, from the user's
	// on, when its turn failed; nil otherwise.
	dropped []Message
}

func newSession(o Options) *session {
	s := &session{
		screen: screen{out: o.Out, notes: o.Notes, errors: o.Errors, terminal: o.Terminal, colour: o.Colour &&
			o.Terminal},
		client:   o.Client,
		id:       rand.Text(),
		now:      o.now,
		settings: map[string]json.RawMessage{}, members: o.Members,
	}
	if s.now == nil {
		s.now = time.Now
	}
	maps.Copy(s.settings, o.Settings)
	if o.System != "" {
		s.messages = []Message{textMessage("system", o.System)}
	}
	return s
}

// Once asks one message and prints the answer to o.Out, ended by a newline, and
// nothing else there but reasoning on a terminal. It reads nothing. Errors are
// those of Client.Ask; what came before them was printed.
func Once(ctx context.Context, o Options, message string) error {
	s := newSession(o)
	s.messages = append(s.messages, textMessage("user", message))
	a, _, err := s.answer(ctx)
	switch {
	case err != nil:
		return err
	case len(a.Calls) > 0:
		return fmt.Errorf("the model calls the tool %s, which it was not given", a.Calls[0].Name)
	}
	s.cutShort(a)
	return nil
}

// Talk holds a conversation until In ends, the user leaves or ctx ends; if ctx ends, it returns ctx's cause. Failed
// answers and commands are shown and do not end it.
func Talk(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newSession(o)
	if o.Editor != nil {
		s.in = newInput(ctx, o.Editor.Read, o.Interrupts)
	} else {
		s.in = newInput(ctx, readLines(o.In), o.Interrupts)
		s.in.show = func(prompt string) { io.WriteString(s.notes, prompt) }
	}
	at := Request{Prompt: s.paint(bold, "> "), More: s.paint(bold, ". "), Complete: s.complete}
	s.note("%s. /help lists the commands, Ctrl-D leaves.", s.client.Model())
	for presses := 0; ; {
		e, err := s.in.entry(ctx, at)
		switch {
		case errors.Is(err, ErrInterrupted):
			if e.text != "" { // lines of an entry: the first press drops them
				presses = 0
			}
			s.newline()
			if presses++; presses > 1 {
				return nil
			}
			s.note("Ctrl-C again leaves, as Ctrl-D does.")
			continue
		case errors.Is(err, io.EOF):
			s.newline()
			return nil
		case err != nil:
			return err
		}
		presses = 0
		switch text := strings.TrimSpace(e.text); {
		case text == "":
		case !e.quoted && text[0] == '/':
			err = s.command(ctx, text)
		default:
			err = s.turn(ctx, []Message{textMessage("user", e.text)})
		}
		if errors.Is(err, errLeave) || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) newline() { io.WriteString(s.notes, "\n") }

// turn asks messages, the user's and what may have followed it, and shows
// answers until one calls no tool. The error ends the conversation; other
// failures are told, and take the turn back.
func (s *session) turn(ctx context.Context, messages []Message) error {
	before := len(s.messages)
	s.dropped = nil
	s.messages = append(s.messages, messages...)
	drop := func() {
		s.dropped = slices.Clone(s.messages[before:]) // results of calls were typed: they are not lost
		s.messages = s.messages[:before]
	}
	for {
		a, shown, err := s.answer(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrInterrupted):
			if a.Text == "" {
				drop()
				s.note("stopped; the message was taken back, /retry asks it again")
				return nil
			}
			s.messages = append(s.messages, textMessage("assistant", a.Text))
			s.note("stopped; what came is kept")
			return nil
		case err != nil:
			drop()
			s.fail(err)
			s.note("the message was taken back, /retry asks it again")
			return nil
		}
		if s.terminal {
			s.note("%s", shown.pace(a.Tokens))
		}
		s.cutShort(a)
		if len(a.Calls) == 0 {
			s.messages = append(s.messages, textMessage("assistant", a.Text))
			return nil
		}
		switch again, err := s.results(ctx, a); {
		case err != nil:
			return err
		case !again:
			drop()
			s.note("the message was taken back, /retry asks it again")
			return nil
		}
	}
}

// cutShort says that an answer is not whole, if so.
func (s *session) cutShort(a Answer) {
	switch a.Finish {
	case "length":
		s.note("the answer was cut at the length that was allowed")
	case "content_filter":
		s.note("the server's filter cut the answer")
	}
}

// answer asks for the next message and shows it as it comes.
func (s *session) answer(ctx context.Context) (Answer, *showing, error) {
	if s.in != nil {
		var stop func()
		ctx, stop = s.in.interruptible(ctx)
		defer stop()
	}
	show := s.begin(s.now)
	q := Question{Messages: s.messages, Tools: s.tools.raw, Settings: s.settings, Session: s.id}
	a, err := s.client.Ask(ctx, q, show.piece)
	return a, show, errors.Join(err, show.end())
}

// results shows the calls of an answer and asks for what they came to. It
// returns false when that was not given; its error ends the conversation.
func (s *session) results(ctx context.Context, a Answer) (bool, error) {
	for _, c := range a.Calls {
		fmt.Fprintf(s.notes, "%s %s %s\n", s.paint(dim, "call"), s.paint(bold, safe(c.Name)), safe(c.Arguments))
	}
	if a.Finish == "length" {
		s.note("a call that was cut has no result")
		return false, nil
	}
	messages := append(slices.Clone(s.messages), callMessage(a.Text, a.Calls))
	for _, c := range a.Calls {
		text, err := s.result(ctx, c)
		switch {
		case errors.Is(err, ErrInterrupted), errors.Is(err, io.EOF):
			s.newline()
			if errors.Is(err, io.EOF) {
				return false, err
			}
			return false, nil
		case err != nil:
			return false, err
		case text == "":
			return false, nil
		}
		messages = append(messages, resultMessage(c, text))
	}
	s.messages = messages
	return true, nil
}

// result asks what a call came to: a line, or the text of a file; a line that
// begins with two @ begins with one. It is empty when none was given.
func (s *session) result(ctx context.Context, c Call) (string, error) {
	for {
		prompt := fmt.Sprintf("result of %s (a line, @FILE, nothing to stop): ", safe(c.Name))
		text, err := s.in.read(ctx, Request{Prompt: s.paint(bold, prompt)})
		if err != nil {
			return "", err
		}
		text = strings.TrimSpace(text)
		switch name, file := strings.CutPrefix(text, "@"); {
		case !file:
			return text, nil
		case strings.HasPrefix(name, "@"):
			return name, nil
		default:
			data, err := os.ReadFile(name)
			if err == nil {
				return string(data), nil
			}
			s.fail(err)
		}
	}
}
