package chat

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"tgi/server/config"
)

// errLeave ends the conversation.
var errLeave = errors.New("leave")

// command is a line that begins with a slash.
type command struct {
	name, takes, help string
	// run gets what follows the name. Its error is shown and does not end the
	// conversation, unless it is wrapped in a leaving.
	run func(s *session, ctx context.Context, rest string) error
	// complete returns what the word after the name may become; nil completes nothing.
	complete func(s *session, word string) []Candidate
}

// leaving is an error that ends the conversation.
type leaving struct{ error }

// Unwrap is for package errors.
func (l leaving) Unwrap() error { return l.error }

func commands() []command {
	return []command{
		{"/help", "", "this list", (*session).help, nil},
		{"/system", "[TEXT|-]", "set the system prompt, show it, or clear it with -", (*session).system, nil},
		{"/tools", "[FILE|off]", "give the model the tools of a JSON file, show them, or take them away",
			(*session).useTools, (*session).toolFiles},
		{"/set", "[KEY VALUE|KEY -]", "set a member of requests such as temperature, show all, or clear it with -",
			(*session).set, (*session).settingNames},
		{"/retry", "", "ask the last message again", (*session).retry, nil},
		{"/reset", "", "forget the conversation; system prompt, tools and settings stay", (*session).reset, nil},
		{"/save", "FILE", "write the conversation as JSON, to a new file", (*session).save, (*session).files},
		{"/save!", "FILE", "the same, replacing a file that is there", (*session).saveOver, (*session).files},
		{"/load", "FILE", "go on with a conversation that was saved", (*session).load, (*session).files},
		{"/quit", "", "leave", func(*session, context.Context, string) error { return leaving{errLeave} }, nil},
	}
}

// command runs a line. The error ends the conversation.
func (s *session) command(ctx context.Context, line string) error {
	name, rest := cut(line)
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
		if c.name != name {
			continue
		}
		if rest != "" && c.takes == "" {
			s.fail(fmt.Errorf("%s takes nothing, got %q", name, rest))
			return nil
		}
		err := c.run(s, ctx, rest)
		var over leaving
		switch {
		case errors.As(err, &over):
			return over.error
		case err != nil:
			s.fail(err)
		}
		return nil
	}
	s.fail(fmt.Errorf("unknown command %s%s (/help lists them; a message that begins with / goes between %s and %s)",
		name, config.Suggest(name, names), fence, fence))
	return nil
}

func (s *session) help(context.Context, string) error {
	for _, c := range commands() {
		s.note("  %-26s %s", strings.TrimSpace(c.name+" "+c.takes), c.help)
	}
	s.note(`A line that ends with \ goes on in the next one; so does all between %s and %s.
Ctrl-C ends an answer, and leaves when pressed twice at the prompt. Ctrl-D leaves.`, fence, fence)
	return nil
}

// systemAt returns the system prompt, if there is one.
func (s *session) systemAt() (Message, bool) {
	if len(s.messages) == 0 {
		return Message{}, false
	}
	m := s.messages[0]
	return m, m.Role == "system" || m.Role == "developer"
}

func (s *session) system(_ context.Context, rest string) error {
	old, some := s.systemAt()
	if rest == "" {
		text, ok := old.text()
		switch {
		case !some:
			s.note("no system prompt")
		case !ok:
			s.note("%s", old.Raw)
		default:
			s.note("%s", text)
		}
		return nil
	}
	if some {
		s.messages = slices.Clone(s.messages[1:])
	}
	if rest == "-" {
		s.note("no system prompt")
		return nil
	}
	s.messages = slices.Insert(s.messages, 0, textMessage("system", rest))
	return nil
}

func (s *session) useTools(_ context.Context, rest string) error {
	switch rest {
	case "":
	case "off":
		s.tools = tools{}
	default:
		data, err := os.ReadFile(rest)
		if err != nil {
			return err
		}
		t, err := readTools(data)
		if err != nil {
			return fmt.Errorf("%s: %w", rest, err)
		}
		s.tools = t
	}
	if len(s.tools.names) == 0 {
		s.note("no tools")
		return nil
	}
	s.note("tools: %s", strings.Join(s.tools.names, ", "))
	return nil
}

// written are the members of requests that the chat itself decides.
var written = map[string]string{"messages": "/load", "tools": "/tools", "stream": "nothing: answers are streams"}

// Members are what the requests of a conversation may have.
type Members struct {
	// Names lists them.
	Names []string
	// Check returns why a member cannot have a value; nil takes all.
	Check func(name string, value json.RawMessage) error
}

// Setting returns the value of a member of requests: JSON where text is some, else
// text as a string. The error says why it cannot be set.
func (m Members) Setting(name, text string) (json.RawMessage, error) {
	if name == "" || text == "" {
		return nil, fmt.Errorf("a setting wants a key and a value, got %q and %q", name, text)
	}
	if err := m.known(name); err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	check := m.Check
	if check == nil {
		check = func(string, json.RawMessage) error { return nil }
	}
	if json.Valid([]byte(text)) {
		err = check(name, json.RawMessage(text))
		if err == nil || check(name, quoted) != nil { // a text may look like a number
			return json.RawMessage(text), misfit(name, text, err)
		}
	}
	return quoted, misfit(name, text, check(name, quoted))
}

// known returns why a member cannot be set at all.
func (m Members) known(name string) error {
	if instead, own := written[name]; own {
		return fmt.Errorf("%s is set by %s", name, instead)
	}
	if !slices.Contains(m.Names, name) {
		return fmt.Errorf("%.64s is not a member of chat requests%s", name, config.Suggest(name, m.Names))
	}
	return nil
}

func misfit(name, text string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s cannot be %.64s: %w", name, text, err)
}

// set is /set.
func (s *session) set(_ context.Context, rest string) error {
	key, text := CutSetting(rest)
	switch {
	case key == "":
		for _, name := range slices.Sorted(maps.Keys(s.settings)) {
			s.note("%s %s", name, s.settings[name])
		}
		if len(s.settings) == 0 {
			s.note("no settings: the server's defaults")
		}
		return nil
	case text == "-":
		delete(s.settings, key)
		return s.members.known(key)
	}
	value, err := s.members.Setting(key, text)
	if err == nil {
		s.settings[key] = value
	}
	return err
}

// CutSetting splits KEY VALUE or KEY=VALUE.
func CutSetting(s string) (key, value string) {
	i := strings.IndexAny(s, "= \t\n")
	if i < 0 {
		return s, ""
	}
	key, value = s[:i], strings.TrimSpace(s[i:])
	return key, strings.TrimSpace(strings.TrimPrefix(value, "="))
}

// cut splits a line behind its first word.
func cut(line string) (word, rest string) {
	if i := strings.IndexAny(line, " \t\n"); i >= 0 {
		return line[:i], strings.TrimSpace(line[i:])
	}
	return line, ""
}

// retry takes the last turn back and asks its message again. One that failed is
// back already: it goes on where it failed.
func (s *session) retry(ctx context.Context, _ string) error {
	if s.dropped == nil {
		for i, m := range slices.Backward(s.messages) {
			if m.Role == "user" {
				s.messages, s.dropped = s.messages[:i], []Message{m}
				break
			}
		}
	}
	if s.dropped == nil {
		return errors.New("there is no message to ask again")
	}
	if err := s.turn(ctx, s.dropped); err != nil {
		return leaving{err}
	}
	return nil
}

func (s *session) reset(context.Context, string) error {
	if _, some := s.systemAt(); some {
		s.messages = s.messages[:1]
	} else {
		s.messages = nil
	}
	s.dropped, s.id = nil, rand.Text()
	s.note("the conversation is empty")
	return nil
}

func (s *session) save(_ context.Context, rest string) error {
	return s.write(rest, os.O_EXCL)
}

func (s *session) saveOver(_ context.Context, rest string) error {
	return s.write(rest, os.O_TRUNC)
}

// write saves the conversation for its user alone.
func (s *session) write(path string, mode int) error {
	if path == "" {
		return errors.New("/save wants the name of a file")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|mode, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; /save! replaces it", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(writeMessages(s.messages))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.note("%s: %s", path, count(len(s.messages)))
	return nil
}

func (s *session) load(_ context.Context, rest string) error {
	if rest == "" {
		return errors.New("/load wants the name of a file")
	}
	data, err := os.ReadFile(rest)
	if err != nil {
		return err
	}
	list, err := readMessages(data)
	if err != nil {
		return fmt.Errorf("%s: %w", rest, err)
	}
	s.messages, s.dropped, s.id = list, nil, rand.Text()
	s.note("%s: %s", rest, count(len(list)))
	return nil
}

func count(messages int) string {
	if messages == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", messages)
}
