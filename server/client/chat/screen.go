package chat

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// screen prints. The first error of writing an answer stays.
type screen struct {
	out      io.Writer // answers
	notes    io.Writer // everything else but errors
	errors   io.Writer
	terminal bool // out is a terminal
	colour   bool
}

// Sequences of ECMA-48, section 8.3.117, that terminals know.
const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

// paint returns text in a style, without one where there are no colours.
func (s *screen) paint(style, text string) string {
	if !s.colour {
		return text
	}
	return style + text + plain
}

// note prints a line that is no answer.
func (s *screen) note(format string, args ...any) {
	fmt.Fprintln(s.notes, s.paint(dim, safe(fmt.Sprintf(format, args...))))
}

// fail prints an error.
func (s *screen) fail(err error) { fmt.Fprintln(s.errors, "error:", safe(err.Error())) }

// safe returns text without what would steer a terminal: a model, a server or a
// file could otherwise move the cursor, rewrite what was said or type commands.
// The signs are shown as pictures.
func safe(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return 0x2400 + r // the pictures of the control characters
		case r == 0x7f:
			return 0x2421
		case r >= 0x80 && r < 0xa0,
			r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // C1; overrides of the direction of writing
			return 0xfffd
		}
		return r
	}, text)
}

// showing prints one answer as it comes.
type showing struct {
	*screen
	now     func() time.Time
	thinks  bool // the last that was printed is reasoning
	some    bool // something was printed
	newline bool // the last that was printed ended a line
	pieces  int
	began   time.Time // of the request
	first   time.Time // when the first piece came
	over    time.Time // when the answer was
}

// begin is the start of an answer, when the request leaves.
func (s *screen) begin(now func() time.Time) *showing {
	return &showing{screen: s, now: now, began: now()}
}

// piece prints a piece of the answer.
func (s *showing) piece(d Delta) error {
	if s.pieces++; s.pieces == 1 {
		s.first = s.now()
	}
	thought := d.Reasoning != ""
	text := d.Text
	if thought {
		text = d.Reasoning
	}
	if text == "" || thought && !s.terminal {
		return nil
	}
	if s.terminal {
		text = safe(text)
	}
	ends := strings.HasSuffix(text, "\n")
	if s.thinks && !thought {
		text = s.gap() + text
	}
	if thought {
		text = s.paint(dim, text)
	}
	s.thinks, s.some, s.newline = thought, true, ends
	_, err := io.WriteString(s.out, text)
	return err
}

// gap separates the answer from the reasoning before it.
func (s *showing) gap() string {
	if s.newline {
		return "\n"
	}
	return "\n\n"
}

// end is called once, after the last piece: it closes the line of the answer.
func (s *showing) end() error {
	s.over = s.now()
	if !s.some || s.newline {
		return nil
	}
	s.newline = true
	_, err := io.WriteString(s.out, "\n")
	return err
}

// pace says how fast the answer came: its tokens over all the time that it took.
// Pieces are no measure, one may stand for many tokens: a call's name is shown
// when it is whole.
func (s *showing) pace(tokens int) string {
	about, unit := "", "tokens"
	if tokens == 0 {
		tokens, about = s.pieces, "about "
	}
	if tokens == 1 {
		unit = "token"
	}
	took := s.over.Sub(s.began)
	text := fmt.Sprintf("%s%d %s in %s", about, tokens, unit, took.Round(time.Millisecond))
	if took > 0 {
		text += fmt.Sprintf(", %.1f tokens/s", float64(tokens)/took.Seconds())
	}
	if s.pieces > 0 {
		text += fmt.Sprintf("; the first after %s", s.first.Sub(s.began).Round(time.Millisecond))
	}
	return text
}
