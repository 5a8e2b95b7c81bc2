package program_test

import (
	"fmt"
	"strings"
	"testing"

	"tgi/sdk/go/internal/host"
	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/program"
)

// counting counts how often texts are read.
type counting struct {
	host.Program
	reads *int
}

func (c counting) ReadText(id, from int32) []byte {
	*c.reads++
	return c.Program.ReadText(id, from)
}

// TestRewindText: it leaves as many tokens as have no more than so many bytes, and reads the text a few times.
func TestRewindText(t *testing.T) {
	h := plugintest.New(t, "Q", " a", " bcd", "</s>")
	m := h.Program(t, &plugintest.Model{})
	reads := 0
	host.CurrentProgram = counting{m, &reads}
	run := func(prompt string, f func(c *program.Context) error) {
		t.Helper()
		_, err := m.Run(program.Func(func(r *program.Request) error { return f(r.Context) }), prompt, "{}")
		if err != nil {
			t.Error(err)
		}
	}
	for bytes, left := range map[int]int{99: 5, 12: 5, 11: 4, 10: 4, 9: 3, 6: 3, 5: 2, 2: 2, 1: 1, 0: 1} {
		run("Q a bcd bcd a", func(c *program.Context) error {
			for range 2 { // the second changes nothing more
				if err := c.RewindText(1, bytes); err != nil || c.Len() != left {
					return fmt.Errorf("%d bytes: %d tokens are left, want %d (%v)", bytes, c.Len(), left, err)
				}
			}
			return nil
		})
	}
	run("Q"+strings.Repeat(" a", 1000), func(c *program.Context) error {
		reads = 0
		if err := c.RewindText(1, 10); err != nil || c.Len() != 6 || reads > 12 {
			return fmt.Errorf("%d tokens are left, the text was read %d times (%v)", c.Len(), reads, err)
		}
		return nil
	})
}
