// Command bannedstrings takes the texts of its parameter "strings" back before a client sees them, and has the model
// go another way: {"strings": ["delve", "as an AI"]}. A text is taken back with the token it begins in.
package main

import (
	"bytes"

	"tgi/sdk/abi"
	"tgi/sdk/go/guard"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
)

func init() {
	plugin.Describe(plugin.Info{
		Name: "banned-strings", Version: "1.0.0", Doc: "Takes texts back and has the model go another way.",
		Params: `{"type":"object","properties":{"strings":{"type":"array","items":{"type":"string"}}}}`,
	})
	guard.Register(guard.Uses{Hold: 100, Verdicts: []guard.Verdict{guard.Rewind}}, open)
}

func main() {}

type opened struct{}

func open([]byte) (guard.Plugin, error) { return opened{}, nil }

// Begin implements guard.Plugin.
func (opened) Begin(raw []byte, _ []uint32) (guard.Guard, error) {
	var list banned
	r := params.Read(raw)
	for key := range r.Object() {
		if key != "strings" {
			r.Fail("unknown parameter, want strings")
			continue
		}
		for range r.Array() {
			switch text := r.String(); {
			case text == "" || len(text) > 100:
				r.Fail("strings: want 1 to 100 bytes each")
			case len(list) == 16:
				r.Fail("strings: want at most 16")
			default:
				list = append(list, []byte(text))
			}
		}
	}
	return list, r.Close()
}

// banned are the texts.
type banned [][]byte

// Check implements guard.Guard.
func (b banned) Check(s *guard.Step) error {
	open := -1 // where one of the texts may begin
	for i := s.Context; i < len(s.Text); i++ {
		for _, text := range b {
			if bytes.HasPrefix(s.Text[i:], text) {
				s.Rewind(s.TokenAt(i))
				return nil
			}
			if open < 0 && bytes.HasPrefix(text, s.Text[i:]) {
				open = i
			}
		}
	}
	if open >= 0 && s.Reason == abi.ReasonNone { // else no more can come: all of it goes out
		s.HoldFrom(open)
	}
	return nil
}
