package guest_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"tgi/conformance/guest"
	"tgi/sdk/abi"
)

// fake is a guest written down in Go: memory is a slice, exports are
// functions. A test breaks one thing in it and expects the rule to be named.
type fake struct {
	exports     []abi.Func
	imports     []guest.Import
	description string
	code        map[string]func(*machine, []uint64) uint64
	loadErr     error
	noMemory    bool
	// shared stands for memory that no snapshot puts back.
	shared *uint32
}

// machine is an instance of a fake.
type machine struct {
	f    *fake
	host guest.Host
	mem  []byte
	top  uint32
	// reg is the state of the sequence.
	reg [4]uint32
}

const (
	textAt   = 0x100  // texts that the guest returns
	stepAt   = 0x1000 // the step struct
	outAt    = 0x1100 // what the step's outputs point to
	heapAt   = 0x8000
	pageSize = 65536
)

var errTrap = errors.New("trap")

func (f *fake) Exports() []abi.Func     { return f.exports }
func (f *fake) Imports() []guest.Import { return f.imports }
func (f *fake) Load(h guest.Host) (guest.Instance, error) {
	if f.loadErr != nil {
		return nil, f.loadErr
	}
	return &machine{f: f, host: h, mem: make([]byte, 4*pageSize), top: heapAt}, nil
}

func (m *machine) Call(name string, args ...uint64) (v uint64, err error) {
	defer func() {
		if r := recover(); r == errTrap {
			err = errTrap
		} else if r != nil {
			panic(r)
		}
	}()
	return m.f.code[name](m, args), nil
}

func (m *machine) Memory() []byte {
	if m.f.noMemory {
		return nil
	}
	return m.mem
}

func (m *machine) Fork() (guest.Instance, error) {
	c := *m
	c.mem = slices.Clone(m.mem)
	return &c, nil
}

func (m *machine) Close() {}

// text puts s into memory and packs it.
func (m *machine) text(s string) uint64 {
	copy(m.mem[textAt:], s)
	if s == "" {
		return 0
	}
	return abi.Pack(textAt, uint32(len(s)))
}

func (m *machine) field(at int) uint32 { return binary.LittleEndian.Uint32(m.mem[stepAt+at:]) }

func (m *machine) set(at int, v uint32) { binary.LittleEndian.PutUint32(m.mem[stepAt+at:], v) }

// out sets mode and output array.
func (m *machine) out(mode uint32, count uint32, words ...uint32) {
	for i, w := range words {
		binary.LittleEndian.PutUint32(m.mem[outAt+4*i:], w)
	}
	m.set(abi.StepMode, mode)
	m.set(abi.StepOut, outAt)
	m.set(abi.StepOutCount, count)
}

func (m *machine) params(args []uint64) string { return string(m.mem[args[0] : args[0]+args[1]]) }

// refuses is the fake's idea of bad parameters.
func (m *machine) refuses(args []uint64) uint64 {
	if p := m.params(args); len(p) == 0 || p[0] != '{' || p == `{"bad":1}` {
		return m.text("bad parameters")
	}
	return 0
}

// sound is a guest without a fault: it denies token 3 and picks at random.
func sound() *fake {
	f := &fake{
		exports: slices.Concat(abi.Common, abi.Logits, abi.Sampler, []abi.Func{{Name: "_initialize"}}),
		imports: []guest.Import{{Module: abi.ImportModule, Func: abi.Imports[5]}, {Module: abi.WASIModule,
			Func: abi.Func{Name: "fd_write"}}},
		description: `{"name":"fake","version":"1","kinds":["logits","sampler"],"needs":["topk:4","row"],"candidates":8,
			"modes":["allow","deny","sparse","bitmask","topk","row","stop","force","temperature"]}`,
		shared: new(uint32),
	}
	f.code = map[string]func(*machine, []uint64) uint64{
		"tgi_alloc": func(m *machine, args []uint64) uint64 {
			if args[0] > 1<<20 {
				return 0
			}
			at := m.top
			m.top += (uint32(args[0]) + 15) &^ 15
			for int(m.top) > len(m.mem) {
				m.mem = append(m.mem, make([]byte, pageSize)...)
			}
			return uint64(at)
		},
		"tgi_describe":    func(m *machine, _ []uint64) uint64 { return m.text(m.f.description) },
		"tgi_init":        func(m *machine, args []uint64) uint64 { return m.refuses(args) },
		"tgi_validate":    func(m *machine, args []uint64) uint64 { return m.refuses(args) },
		"tgi_logits_step": func(*machine, []uint64) uint64 { return stepAt },
		"tgi_logits_begin": func(m *machine, args []uint64) uint64 {
			return m.refuses(args)
		},
		"tgi_logits_process": func(m *machine, _ []uint64) uint64 { m.out(abi.ModeDeny, 1, 3); return 0 },
		"tgi_sampler_begin":  func(m *machine, args []uint64) uint64 { return m.refuses(args) },
		"tgi_sampler_sample": func(m *machine, args []uint64) uint64 { return m.host.Rand() % args[1] },
	}
	return f
}

// with replaces the code of an export.
func (f *fake) with(name string, code func(*machine, []uint64) uint64) *fake {
	f.code = maps.Clone(f.code)
	f.code[name] = code
	return f
}

// answering makes every step answer as given.
func answering(set func(*machine)) *fake {
	return sound().with("tgi_logits_process", func(m *machine, _ []uint64) uint64 { set(m); return 0 })
}

func f32(v float64) uint32 { return math.Float32bits(float32(v)) }
