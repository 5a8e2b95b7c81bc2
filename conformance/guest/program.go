package guest

import "tgi/sdk/abi"

// programRequest is what a program is asked for, without params.
const programRequest = `{"settings":{"max_tokens":16},"prompt_count":3,"messages":[{"role":"user","content":"Hi"}],` +
	`"limits":{"handles":64,"forks":1024,"tokens":4096,"max_new_tokens":16}}`

// programs runs the guest's program once, in an instance of its own, on whatever model the host has.
func (p *prepared) programs() (answers []Answer, ok bool) {
	if p.run.now.Refused {
		return nil, true
	}
	q, ok := p.begin()
	if !ok {
		return nil, false
	}
	defer q.Close()
	p.world.Seed = seed
	fault, ok := q.handed("tgi_program_run", withMember(programRequest, "params", p.run.now.Params))
	return []Answer{{Kind: abi.KindProgram, Fault: fault}}, ok
}
