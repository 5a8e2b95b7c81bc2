package guest_test

import (
	"encoding/binary"
	"slices"
	"strings"

	"tgi/conformance/guest"
	"tgi/sdk/abi"
)

// Where the fake of conversations keeps things.
const (
	resultAt = 0x1000 // the result struct, behind it the spans
	eventsAt = 0x1100
	wordsAt  = 0x1400 // texts of events
	saysAt   = 0x4000 // what is rendered
)

func (m *machine) words(at int, ws ...uint32) {
	for i, w := range ws {
		binary.LittleEndian.PutUint32(m.mem[at+4*i:], w)
	}
}

// result makes the result of a render.
func (m *machine) result(status uint32, text string, spans ...uint32) uint64 {
	for len(m.mem) < saysAt+len(text) {
		m.mem = append(m.mem, make([]byte, pageSize)...)
	}
	copy(m.mem[saysAt:], text)
	m.words(resultAt+32, spans...)
	m.words(resultAt, status, saysAt, uint32(len(text)), resultAt+32, uint32(len(spans)/2))
	return resultAt
}

// events makes the result of a feed. Fields are set behind that by edit.
func (m *machine) events(list ...guest.Event) uint64 {
	texts := wordsAt
	put := func(s string) (at, n uint32) {
		if s == "" {
			return 0, 0
		}
		copy(m.mem[texts:], s)
		texts += len(s)
		return uint32(texts - len(s)), uint32(len(s))
	}
	for i, e := range list {
		text, textBytes := put(e.Text)
		name, nameBytes := put(e.Name)
		id, idBytes := put(e.ID)
		m.words(eventsAt+i*abi.EventSize, e.Kind, e.Index, text, textBytes, name, nameBytes, id, idBytes, e.Reason)
	}
	return abi.Pack(eventsAt, uint32(len(list)))
}

func content(text string) guest.Event { return guest.Event{Kind: abi.EventContent, Text: text} }
func begins(i uint32) guest.Event {
	return guest.Event{Kind: abi.EventBegin, Index: i, Name: "f", ID: "c"}
}
func arguments(i uint32, text string) guest.Event {
	return guest.Event{Kind: abi.EventArguments, Index: i, Text: text}
}
func ends(i uint32) guest.Event { return guest.Event{Kind: abi.EventEnd, Index: i} }

// piece is what a feed was given.
func (m *machine) piece(args []uint64) string { return string(m.mem[args[0]:][:args[1]]) }

// chatting is a guest without a fault for conversations: it renders the request between special tokens, and takes all
// that is written for content, with a call at the end.
func chatting() *fake {
	f := sound()
	f.exports = slices.Concat(abi.Common, abi.Template, abi.Tools)
	f.description = `{"name":"chat","version":"1","kinds":["template","tools"]}`
	f = f.with("tgi_template_render", func(m *machine, args []uint64) uint64 {
		request := m.params(args)
		return m.result(abi.StatusOK, "<s>"+request+"</s>", 3, uint32(3+len(request)))
	})
	f = f.with("tgi_tools_begin", func(m *machine, args []uint64) uint64 { return 0 })
	f = f.with("tgi_tools_feed", func(m *machine, args []uint64) uint64 { return m.events(content(m.piece(args))) })
	return f.with("tgi_tools_finish", func(m *machine, args []uint64) uint64 {
		return m.events(begins(0), arguments(0, " {"), arguments(0, "}"), ends(0))
	})
}

// rendering makes every render answer as given.
func rendering(set func(*machine) uint64) *fake {
	return chatting().with("tgi_template_render", func(m *machine, _ []uint64) uint64 { return set(m) })
}

// finishing makes every finish answer as given.
func finishing(set func(*machine) uint64) *fake {
	return chatting().with("tgi_tools_finish", func(m *machine, _ []uint64) uint64 { return set(m) })
}

// says makes finish give events.
func says(list ...guest.Event) *fake {
	return finishing(func(m *machine) uint64 { return m.events(list...) })
}

// edited makes finish give one event with a field changed.
func edited(e guest.Event, field int, v uint32) *fake {
	return finishing(func(m *machine) uint64 {
		packed := m.events(e)
		m.words(eventsAt+field, v)
		return packed
	})
}

// holding makes a guest that says what texts are held to.
func holding(set func(*machine) uint64) *fake {
	f := chatting()
	f.exports = append(f.exports, abi.ToolsOptional...)
	return f.with("tgi_tools_constraint", func(m *machine, args []uint64) uint64 { m.params(args); return set(m) })
}

// held makes a result of constraint.
func (m *machine) held(status uint32, text, notes string) uint64 {
	copy(m.mem[saysAt:], text)
	copy(m.mem[wordsAt:], notes)
	m.words(resultAt, status, saysAt, uint32(len(text)), wordsAt, uint32(len(notes)))
	return resultAt
}

// heldTo is a constraint without a fault.
const heldTo = `{"language":"regex","source":"x","params":{},"optional":true,"places":[{"at":"#","pointer":"#/tools/0","tool":"f"}]}`

// holds makes every answer to constraint the same.
func holds(status uint32, text, notes string) *fake {
	return holding(func(m *machine) uint64 { return m.held(status, text, notes) })
}

// brokenChats lists guests for conversations with one fault each, by the rule that must name it.
func brokenChats() map[string][]*fake {
	trapping := func(name string) *fake {
		return chatting().with(name, func(*machine, []uint64) uint64 { panic(errTrap) })
	}
	missing := func(name string) *fake {
		f := chatting()
		f.exports = slices.DeleteFunc(f.exports, func(e abi.Func) bool { return e.Name == name })
		return f
	}
	lacking := chatting()
	lacking.description = `{"name":"chat","kinds":["tools"]}`
	untold := holds(0, "", "")
	untold.description = `{"name":"chat","kinds":["template"]}`
	untold.exports = slices.Concat(abi.Common, abi.Template, abi.ToolsOptional)
	other := holds(0, "", "")
	other.exports = slices.Concat(abi.Common, abi.Template, abi.Tools,
		[]abi.Func{{Name: "tgi_tools_constraint", Params: []abi.Type{abi.I32, abi.I32}, Results: []abi.Type{abi.I64}}})
	failed := func(index, reason uint32) guest.Event {
		return guest.Event{Kind: abi.EventFailed, Index: index, Reason: reason, Text: "x"}
	}
	long := string(make([]byte, abi.MaxName+1))
	return map[string][]*fake{
		"registered":     {missing("tgi_template_render")},
		"export":         {other, missing("tgi_tools_feed"), missing("tgi_tools_finish")},
		"export-unknown": {lacking, untold},
		"constraint": {
			holding(func(m *machine) uint64 { return uint64(len(m.mem) - 16) }), holding(func(*machine) uint64 {
				return resultAt + 2
			}),
			holds(2, "", ""), holds(abi.StatusFailed, "", ""), holds(0, "\xff", ""), holds(0, "[]", ""),
			holds(0, `{"source":"x"}`, ""),
			holds(0, `{"language":"regex"}`, ""), holds(0, `{"language":"regex","source":"x","params":1}`, ""),
			holds(0, strings.Replace(heldTo, `"#/tools/0"`, `"tools"`, 1), ""),
			holding(func(m *machine) uint64 { m.words(resultAt, 0, 0x7fffffff, 1, 0, 0); return resultAt }),
		},
		"notes": {
			holds(0, "", "{}"), holds(0, heldTo, "\xff"),
			holding(func(m *machine) uint64 { m.words(resultAt, 0, 0, 0, 0x7fffffff, 1); return resultAt }),
		},
		"trap": {trapping("tgi_template_render"), trapping("tgi_tools_begin"), trapping("tgi_tools_feed"),
			trapping("tgi_tools_finish")},
		"text": {chatting().with("tgi_tools_begin", func(*machine, []uint64) uint64 {
			return abi.Pack(0xffffff00, 5)
		})},
		"begin": {chatting().with("tgi_tools_begin", func(m *machine, _ []uint64) uint64 { return m.text("no") })},
		"overrun": {chatting().with("tgi_tools_feed", func(m *machine, args []uint64) uint64 {
			m.mem[args[0]+4096+3] = 0
			return 0
		})},
		"rendered": {
			rendering(func(m *machine) uint64 { return uint64(len(m.mem) - 16) }),
			rendering(func(m *machine) uint64 { return resultAt + 2 }),
			rendering(func(m *machine) uint64 { return m.result(2, "x") }),
			rendering(func(m *machine) uint64 { return m.result(abi.StatusFailed, "") }),
			rendering(func(m *machine) uint64 { return m.result(abi.StatusOK, "\xff") }),
			rendering(func(m *machine) uint64 { return m.result(abi.StatusFailed, "\xff") }),
			rendering(func(m *machine) uint64 { m.words(resultAt, 0, 0x7fffffff, 9, 0, 0); return resultAt }),
			rendering(func(m *machine) uint64 {
				if need := saysAt + abi.MaxRendered + 1; len(m.mem) < need {
					m.mem = append(m.mem, make([]byte, need-len(m.mem))...)
				}
				m.words(resultAt, 0, saysAt, abi.MaxRendered+1, 0, 0)
				return resultAt
			}),
		},
		"spans": {
			rendering(func(m *machine) uint64 { return m.result(0, "aé", 0, 4) }),
			rendering(func(m *machine) uint64 { return m.result(0, "aé", 0, 2) }),
			rendering(func(m *machine) uint64 { return m.result(0, "aé", 2, 3) }),
			rendering(func(m *machine) uint64 { return m.result(0, "aé", 1, 0) }),
			rendering(func(m *machine) uint64 { return m.result(0, "abc", 0, 2, 1, 3) }),
			rendering(func(m *machine) uint64 { return m.result(0, "abc", 2, 3, 0, 1) }),
			rendering(func(m *machine) uint64 { m.words(resultAt, 0, saysAt, 0, 0x7fffffff, 1); return resultAt }),
			rendering(func(m *machine) uint64 { m.words(resultAt, 0, saysAt, 0, resultAt+2, 1); return resultAt }),
			rendering(func(m *machine) uint64 { m.words(resultAt, 0, saysAt, 0, 0, abi.MaxSpans+1); return resultAt }),
		},
		"forge": {chatting().with("tgi_template_render", func(m *machine, args []uint64) uint64 {
			return m.result(0, m.params(args))
		})},
		"events": {
			finishing(func(*machine) uint64 { return abi.Pack(0x7ffffff0, 1) }),
			finishing(func(m *machine) uint64 { return m.events(content("x")) + 1<<33 }),
			finishing(func(*machine) uint64 { return abi.Pack(eventsAt, abi.MaxEvents+1) }),
			finishing(func(m *machine) uint64 {
				at := uint32(len(m.mem))
				m.mem = append(m.mem, make([]byte, 5<<20)...)
				for i := range 2 {
					m.words(eventsAt+i*abi.EventSize, abi.EventContent, 0, at, 4<<20+1, 0, 0, 0, 0, 0)
				}
				return abi.Pack(eventsAt, 2)
			}),
			chatting().with("tgi_tools_feed", func(m *machine, args []uint64) uint64 { // the second one is too much
				if len(m.mem) < 8<<20 {
					m.mem = append(m.mem, make([]byte, 6<<20)...)
				}
				m.words(eventsAt, abi.EventContent, 0, uint32(len(m.mem))-5<<20, 5<<20, 0, 0, 0, 0, 0)
				return abi.Pack(eventsAt, 1)
			}),
		},
		"event": {
			edited(content("x"), abi.EventKind, 6), edited(content("x"), abi.EventIndex, 1),
			edited(content("x"), abi.EventReason, 1),
			edited(begins(0), abi.EventText, 1), edited(ends(0), abi.EventTextBytes, 1),
			edited(failed(0, 0), abi.EventName, 1),
			edited(content("x"), abi.EventText, 0x7fffffff), edited(content("x"), abi.EventTextBytes, 0x7fffffff),
			says(content("\xff")),
			says(failed(^uint32(0), 5)), says(guest.Event{Kind: abi.EventBegin, ID: "c"}),
			says(guest.Event{Kind: abi.EventBegin, Name: "f"}),
			says(guest.Event{Kind: abi.EventBegin, Name: long, ID: "c"}),
			says(guest.Event{Kind: abi.EventBegin, Name: "f", ID: long}),
		},
		"event-order": {
			says(begins(1)), says(begins(0)), says(begins(0), begins(1)), says(arguments(0, "x")), says(ends(0)),
			says(begins(0), content("x")),
			says(begins(0), arguments(1, "{}"), ends(0)), says(begins(0), arguments(0, "{}"), ends(0), ends(0)),
			says(failed(0, 0)),
			says(begins(0), failed(^uint32(0), 0)), says(begins(0), failed(0, 0), arguments(0, "x")),
		},
		"arguments": {says(begins(0), ends(0)), says(begins(0), arguments(0, "[]"), ends(0)),
			says(begins(0), arguments(0, "{"), ends(0))},
		"split": {
			chatting().with("tgi_tools_feed", func(m *machine, args []uint64) uint64 {
				return m.events(content(m.piece(args) + "|"))
			}),
			// keeps a pointer to the last piece
			chatting().with("tgi_tools_feed", func(m *machine, args []uint64) uint64 {
				last := string(m.mem[m.reg[0]:][:m.reg[1]])
				m.reg[0], m.reg[1] = uint32(args[0]), uint32(args[1])
				return m.events(content(strings.ToValidUTF8(last, "?")))
			}),
		},
		"deterministic": {rendering(func(m *machine) uint64 {
			*m.f.shared++
			return m.result(0, string(rune('a'+*m.f.shared%20)))
		})},
		"clone": {chatting().with("tgi_tools_feed", func(m *machine, args []uint64) uint64 {
			*m.f.shared++
			return m.events(content(string(rune('a' + *m.f.shared%20))))
		})},
	}
}
