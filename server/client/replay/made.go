package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// toolCall is a call of a tool of an MCP server, which the server made that replied.
type toolCall struct {
	server, name, arguments string
	// output is what the other server answered, as JSON or text, and where that is an error the error.
	output string
	// told says that places have name and arguments, too, as those of any other call.
	told bool
}

// mcpCall is one in a message or a delta of chat.
type mcpCall struct {
	Server    string `json:"server_label"`
	Name      string
	Arguments written
	mcpOutput
}

// mcpOutput is what a call came to, as chat and responses have it.
type mcpOutput struct{ Output, Error json.RawMessage }

func (m *mcpOutput) text() string {
	if set(m.Error) {
		return unquoted(written(m.Error))
	}
	return unquoted(written(m.Output))
}

// make adds a call that the server made, in a sequence.
func (o *outcome) make(sequence int, m *toolCall) {
	if o.made == nil {
		o.made = map[int][]*toolCall{}
	}
	o.made[o.base+sequence] = append(o.made[o.base+sequence], m)
}

// mcpItem adds an item of responses that is such a call.
func (o *outcome) mcpItem(it *item) {
	if it.Type == "mcp_call" {
		o.make(0, &toolCall{server: it.Server, name: it.Name, arguments: unquoted(it.Arguments), output: it.text(),
			told: true})
	}
}

// mcpBlock adds block n of messages if that is such a call, or what one came to.
func (o *outcome) mcpBlock(n int, p *part) {
	switch p.Type {
	case "mcp_tool_use":
		m := &toolCall{server: p.Server, name: p.Name, arguments: unquoted(written(p.Input)), told: true}
		if o.uses == nil {
			o.uses, o.blocks = map[string]*toolCall{}, map[int]*toolCall{}
		}
		o.uses[p.ID], o.blocks[n] = m, m
		o.make(0, m)
	case "mcp_tool_result":
		if m := o.uses[p.Use]; m != nil {
			m.output = unquoted(written(p.Content))
		}
	}
}

// madeDifferences tells which calls of tools of MCP servers two replies do not share. Streams tell of calls in the
// order in which they ended, so equal ones are paired first wherever they stand. What the calls came to is other
// servers' word, of which notes tell alone.
func madeDifferences(was, is *outcome) (list []Difference, notes []string) {
	sequences := map[int]bool{}
	for _, o := range []*outcome{was, is} {
		for s := range o.made {
			sequences[s] = true
		}
	}
	many := slices.ContainsFunc(slices.Collect(maps.Keys(sequences)), func(s int) bool { return s > 0 })
	for _, s := range slices.Sorted(maps.Keys(sequences)) {
		of := ""
		if many {
			of = fmt.Sprintf(" of text %d", s)
		}
		pairs := paired(was.made[s], is.made[s])
		for i, pair := range pairs {
			a, b := pair[0], pair[1]
			switch at := fmt.Sprintf("MCP call %d%s", i, of); {
			case b == nil && !a.told:
				list = append(list, Difference{Field: at, Was: shown(a.name)})
			case a == nil && !b.told:
				list = append(list, Difference{Field: at, Is: shown(b.name)})
			case a != nil && b != nil:
				d := a.differences(b, at)
				list = append(list, d...)
				if len(d) == 0 && a.call() == b.call() && a.output != b.output {
					notes = append(notes, fmt.Sprintf("the output of MCP call %.64q%s differs: another server wrote it, and what "+
						"follows depends on it", a.name, of))
				}
			}
		}
	}
	return list, notes
}

// paired pairs the calls of before, in their order, with those of now: equal ones first. Those of now alone are last.
func paired(before, now []*toolCall) [][2]*toolCall {
	pairs := make([][2]*toolCall, len(before), max(len(before), len(now)))
	for i, m := range before {
		pairs[i][0] = m
	}
	for _, key := range []func(*toolCall) toolCall{
		func(m *toolCall) toolCall { return *m },
		(*toolCall).call,
		func(*toolCall) toolCall { return toolCall{} },
	} {
		free := map[toolCall][]*toolCall{}
		for _, m := range now {
			free[key(m)] = append(free[key(m)], m)
		}
		taken := map[*toolCall]bool{}
		for i, p := range pairs {
			if p[1] != nil {
				continue
			}
			if k := key(p[0]); len(free[k]) > 0 {
				pairs[i][1], free[k] = free[k][0], free[k][1:]
				taken[pairs[i][1]] = true
			}
		}
		now = slices.DeleteFunc(slices.Clone(now), func(m *toolCall) bool { return taken[m] })
	}
	for _, m := range now {
		pairs = append(pairs, [2]*toolCall{nil, m})
	}
	return pairs
}

// call is the call without what came of it.
func (m *toolCall) call() toolCall {
	c := *m
	c.output = ""
	return c
}

// differences are those of a call and n, which a newer reply has in its place, called at.
func (m *toolCall) differences(n *toolCall, at string) (list []Difference) {
	for _, one := range []struct {
		name    string
		was, is string
		told    bool
	}{{"server of ", m.server, n.server, false}, {"name of ", m.name, n.name, m.told},
		{"arguments of ", m.arguments, n.arguments, m.told}} {
		if !one.told && one.was != one.is {
			list = append(list, textDifference(one.name+at, one.was, one.is))
		}
	}
	return list
}
