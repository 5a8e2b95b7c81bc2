package plugins

import (
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Used is a plugin that took part in a request.
type Used = llm.UsedPlugin

// Used returns the plugins of the token loop, in the order in which they run.
func (b *Bound) Used() (list []Used) {
	for _, p := range b.parts {
		if !p.skipped {
			for _, kind := range p.version.steps {
				list = append(list, p.used(kind))
			}
		}
	}
	return list
}

// Used returns the plugins of the conversation: the one that writes its prompt, and the one that reads its replies.
func (b *BoundChat) Used() (list []Used) {
	if b.template != nil {
		list = append(list, b.template.used(abi.KindTemplate))
	}
	if b.tools != nil {
		list = append(list, b.tools.used(abi.KindTools))
	}
	return list
}

// Used returns the plugin that compiled the grammar, or follows it.
func (g *Grammar) Used() Used { return g.used }

// Used returns the program's plugin.
func (p *Program) Used() Used { return p.part.used(abi.KindProgram) }

// used says what of the plugin a reply follows from. What a conversation's plugins are configured with names places on
// this machine, so it is left out.
func (p *part) used(kind string) Used {
	u := Used{Name: p.name, Use: kind, Version: p.version.guest.Description().Version, SHA256: p.version.sum()}
	if kind != abi.KindTemplate && kind != abi.KindTools {
		u.Config = p.version.configSum
	}
	return u
}
