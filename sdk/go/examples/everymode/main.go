// Command everymode returns results in every mode of the binary interface, as its
// parameters say, and checks that the host keeps to the interface. It is for
// tests of servers and SDKs. Parameters:
//
//	mode         "pass" (default), "allow", "deny", "sparse", "bitmask", "topk", "row"
//	ids          the tokens of the result; bias (default 1): added to their logits
//	             by sparse, topk and row; only: deny all others (sparse, topk)
//	stop_at, fail_at, trap_at, force_at: number of an output token, from 0
//	force        tokens that are forced at force_at
//	temperature  of every step
//	pick         sampler: index of the candidate; random: any candidate
package main

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"tgi/sdk/abi"
	"tgi/sdk/go/logits"
	"tgi/sdk/go/params"
	"tgi/sdk/go/plugin"
	"tgi/sdk/go/sampler"
)

func init() {
	plugin.Describe(plugin.Info{Name: "every-mode", Version: "1.0.0", Doc: "Does what its parameters say, for tests."})
	logits.Register(logits.Uses{
		Modes: []logits.Mode{logits.Allow, logits.Deny, logits.Sparse, logits.Bitmask, logits.TopK, logits.Row,
			logits.Stop, logits.Force, logits.Temperature},
		View: 16, Row: true,
	}, func([]byte) (logits.Plugin, error) { return processors{}, nil })
	sampler.Register(64, func([]byte) (sampler.Plugin, error) { return samplers{}, nil })
}

func main() {}

const most = 256

const never = math.MaxUint32

type options struct {
	mode                            int
	ids, force                      []uint32
	stopAt, failAt, trapAt, forceAt uint32
	pick                            uint32
	only, random, hot               bool
	bias, temperature               float32
}

func list(r *params.Reader) (ids []uint32) {
	for range r.Array() {
		if ids = append(ids, r.Uint()); len(ids) > most {
			r.Fail("more than 256 tokens")
		}
	}
	return ids
}

func read(raw []byte) (*options, error) {
	o := &options{bias: 1, stopAt: never, failAt: never, trapAt: never, forceAt: never}
	r := params.Read(raw)
	for key := range r.Object() {
		o.set(r, key)
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	for _, id := range slices.Concat(o.ids, o.force) {
		if id >= plugin.VocabSize() {
			return nil, errors.New("no such token id")
		}
	}
	return o, nil
}

func (o *options) set(r *params.Reader, key string) {
	switch key {
	case "mode":
		if o.mode = slices.Index(abi.ModeNames[:], r.String()); o.mode < 0 {
			r.Fail("mode: no such mode")
		}
	case "ids":
		o.ids = list(r)
	case "force":
		o.force = list(r)
	case "bias":
		o.bias = float32(r.Float())
	case "only":
		o.only = r.Bool()
	case "random":
		o.random = r.Bool()
	case "stop_at":
		o.stopAt = r.Uint()
	case "fail_at":
		o.failAt = r.Uint()
	case "trap_at":
		o.trapAt = r.Uint()
	case "force_at":
		o.forceAt = r.Uint()
	case "pick":
		o.pick = r.Uint()
	case "temperature":
		o.temperature, o.hot = float32(r.Float()), true
	default:
		r.Fail("unknown parameter: " + key)
	}
}

// These show whether this memory has served a sequence before.
var begunLogits, begunSampler bool

var errUsed = errors.New("this memory has served another sequence")

type processors struct{}

// Begin implements logits.Plugin.
func (processors) Begin(raw []byte, prompt []uint32) (logits.Processor, error) {
	if begunLogits {
		return nil, errUsed
	}
	begunLogits = true
	o, err := read(raw)
	if err != nil {
		return nil, err
	}
	p := &processor{options: o, seen: len(prompt)}
	p.entries = make([]logits.Entry, len(o.ids))
	p.words = make([]uint32, abi.MaskWords(plugin.VocabSize()))
	for i, id := range o.ids {
		p.entries[i] = logits.Entry{ID: id, Value: o.bias}
		p.words[id/32] |= 1 << (id % 32)
	}
	return p, nil
}

type processor struct {
	*options
	seen    int
	entries []logits.Entry
	words   []uint32
}

// Process implements logits.Processor.
func (p *processor) Process(s *logits.Step) error {
	if len(s.Tokens) < s.Prompt || len(s.Tokens)-s.New != p.seen {
		return errors.New("host: new_count does not go on from the last call")
	}
	p.seen = len(s.Tokens)
	switch at := uint32(len(s.Tokens) - s.Prompt); at {
	case p.trapAt:
		panic("asked to trap")
	case p.failAt:
		return errors.New("asked to fail at " + strconv.Itoa(int(at)))
	default:
		if at == p.stopAt {
			s.Stop()
		}
		if at == p.forceAt {
			s.Force(p.force)
		}
	}
	if p.hot {
		s.Temperature(p.temperature)
	}
	return p.result(s)
}

func (p *processor) result(s *logits.Step) error {
	switch p.mode {
	case abi.ModeAllow:
		s.Allow(p.ids)
	case abi.ModeDeny:
		s.Deny(p.ids)
	case abi.ModeSparse:
		s.Bias(p.entries)
	case abi.ModeBitmask:
		s.Mask(p.words)
	case abi.ModeView:
		if len(s.View) == 0 {
			return errors.New("host: the view is missing")
		}
		s.SetView(p.edit(s.View))
	case abi.ModeRow:
		if len(s.Row) != int(plugin.VocabSize()) {
			return errors.New("host: the row is missing")
		}
		for _, id := range p.ids {
			s.Row[id] += p.bias
		}
		s.SetRow()
	}
	if p.only && (p.mode == abi.ModeSparse || p.mode == abi.ModeView) {
		s.Only()
	}
	return nil
}

// edit adds the bias to ids in the view. With only it drops the other entries.
func (p *processor) edit(view []logits.Entry) []logits.Entry {
	kept := view[:0]
	for _, e := range view {
		if slices.Contains(p.ids, e.ID) {
			e.Value += p.bias
		} else if p.only {
			continue
		}
		kept = append(kept, e)
	}
	return kept
}

type samplers struct{}

// Begin implements sampler.Plugin.
func (samplers) Begin(raw []byte, _ []uint32) (sampler.Sampler, error) {
	if begunSampler {
		return nil, errUsed
	}
	begunSampler = true
	o, err := read(raw)
	if err != nil {
		return nil, err
	}
	return picker{o}, nil
}

type picker struct{ *options }

// Sample implements sampler.Sampler.
func (p picker) Sample(c []sampler.Candidate) (int, error) {
	if p.random {
		return int(plugin.Rand() >> 32 * uint64(len(c)) >> 32), nil
	}
	return min(int(p.pick), len(c)-1), nil
}
