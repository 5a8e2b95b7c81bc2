package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Rooms are addresses in the guest's memory, the same in every instance; 0 where the guest needs none. Sizes follow
// from the description and the vocabulary.
type Rooms struct {
	Step       uint32 // abi.StepSize bytes
	View       uint32 // Description.View entries
	Row        uint32 // a logit for each id
	Candidates uint32 // Description.Candidates entries
	Piece      uint32 // PieceRoom bytes
	Mask       uint32 // a bit for each id, in words of 32
	Accept     uint32 // AcceptRoom tokens
	Guard      uint32 // abi.GuardSize bytes
	Text       uint32 // TextRoom bytes
	Ends       uint32 // GuardRoom numbers
	Draft      uint32 // abi.MaxDraft tokens

	request                uint32 // requestRoom bytes
	config, params, tokens uint32
}

// What is allocated before the snapshot for parameters and tokens, so that most requests allocate nothing. Where a
// request needs more it gets room of its own. The price is address space: pages that nobody writes to are shared.
const (
	paramsRoom  = 4096    // bytes
	tokensRoom  = 4096    // tokens
	requestRoom = 1 << 18 // bytes of a conversation in JSON
	// PieceRoom is the size of Rooms.Piece, in bytes.
	PieceRoom = 4096
	// AcceptRoom is the size of Rooms.Accept, in tokens.
	AcceptRoom = 1024
	// TextRoom is the size of Rooms.Text, in bytes: the context and what is usually held.
	TextRoom = 4 * abi.MaxContext
	// GuardRoom is the size of Rooms.Ends, in tokens: what two guards hold, one of them a replacement that waits for
	// the other, and the token that a check is about.
	GuardRoom = 2*abi.MaxHold + 2
)

// start makes the pool, which runs what comes before the snapshot.
func (g *Guest) start(ctx context.Context, c Config) error {
	config := configOf(c)
	var failed error
	loaded, model := false, c.Model // not c, which has the module: the pool keeps what init refers to
	// A pool of a guest that keeps state where a snapshot can't reach runs init for each instance, in several
	// goroutines at a time; the first run is over before any other.
	init := func(in *sandbox.Instance) error {
		l := loader{g: g, in: in, left: g.limits.Load(), model: model}
		if g.module.HiddenState() != "" {
			l.left.Fuel = min(l.left.Fuel, sandbox.HiddenFuel)
		}
		err := l.run(config)
		switch {
		case !loaded:
			failed = err
			loaded = err == nil
			g.described, g.d, g.rooms = l.described, l.d, l.rooms
			g.initFuel = g.limits.FuelLoad - l.left.Fuel
		case err == nil && l.rooms != g.rooms:
			err = fmt.Errorf("%s: %w: rooms at %v, at load they were at %v", g.name, sandbox.ErrResult, l.rooms,
				g.rooms)
		}
		return err
	}
	g.account = c.Governor.Account(sandbox.AccountConfig{Cores: g.limits.Share, Trusted: c.Trusted,
		Steady: slices.Equal(Kinds(c.Wasm), []string{abi.KindProgram}), OnPause: c.OnPause})
	pool, err := g.module.NewPool(sandbox.PoolConfig{
		Init: init, Keep: g.keep(c), Max: c.MaxInstances, Account: g.account,
		Cancel: ctx.Done(),
	})
	if failed != nil {
		err = failed
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%s: %w", g.name, context.Cause(ctx))
	}
	if hidden := g.module.HiddenState(); hidden != "" && errors.Is(err, sandbox.ErrFuel) {
		return fmt.Errorf("%w: all from instantiation to init runs for each sequence and may use %d units of fuel, because the module keeps state that no snapshot can hold (%s)",
			err, min(g.limits.FuelLoad, sandbox.HiddenFuel), hidden)
	}
	g.pool = pool
	return err
}

// configOf is the configuration as the guest gets it, without the model.
func configOf(c Config) []byte {
	if len(c.Config) == 0 {
		return []byte("{}")
	}
	return c.Config
}

// loader brings an instance to the point of the snapshot.
type loader struct {
	g     *Guest
	in    *sandbox.Instance
	left  sandbox.Budget
	model []byte
	d     Description
	rooms Rooms

	described []byte // the text of d
}

type span struct{ at, size uint64 }

func (l *loader) run(config []byte) error {
	if f := l.in.Func(abi.Initialize); f != nil {
		if _, err := l.call(abi.Initialize); err != nil {
			return err
		}
	}
	packed, err := l.call("tgi_describe")
	if err != nil {
		return err
	}
	description, err := text(l.in, "tgi_describe", packed, abi.MaxDescription)
	if err != nil {
		return err
	}
	if err := l.describe(description); err != nil {
		return fmt.Errorf("%s: tgi_describe: %w", l.g.name, err)
	}
	if err := l.d.checkConfig(config); err != nil {
		return fmt.Errorf("%s: %w", l.g.name, err)
	}
	if l.d.worksOnChats() {
		config = withModel(config, l.model)
	}
	if err := l.allocate(len(config)); err != nil {
		return err
	}
	copy(l.in.Memory()[l.rooms.config:], config)
	packed, err = l.call("tgi_init", uint64(l.rooms.config), uint64(len(config)))
	if err != nil {
		return err
	}
	switch err := accepted(l.in, "tgi_init", packed); {
	case errors.As(err, new(*Refusal)): // whose words are about the configuration
		return fmt.Errorf("%s: %w", l.g.name, err)
	case err != nil:
		return fmt.Errorf("%s: tgi_init: %w", l.g.name, err)
	}
	return nil
}

// describe reads the description, unless it is that of the first instance.
func (l *loader) describe(text []byte) (err error) {
	if l.described = text; l.g.described != nil && bytes.Equal(text, l.g.described) {
		l.d = l.g.d
		return nil
	}
	if l.d, err = parse(text, l.g.vocab.Size()); err == nil {
		err = checkKinds(l.g.module, l.d)
	}
	return err
}

// need is a room of a guest: which function gives it, and how large it is; 0 bytes are not asked for.
type need struct {
	at   *uint32
	fn   string
	size int
}

// needs lists the rooms of a guest in the order in which they are asked for. config is the bytes of its configuration.
func (r *Rooms) needs(d Description, vocabulary, config int) []need {
	step, guard, row, tokens, request, piece, mask, accept, text, ends, guess := 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	if d.Serves(abi.KindLogits) {
		step = abi.StepSize
	}
	if d.Row {
		row = vocabulary
	}
	if slices.ContainsFunc(d.Kinds, Steps) {
		tokens = tokensRoom * 4
	}
	if d.Serves(abi.KindGuard) {
		guard, text, ends = abi.GuardSize, TextRoom, GuardRoom*4
	}
	if d.Serves(abi.KindDraft) {
		guess = abi.MaxDraft * 4
	}
	if d.worksOnChats() || d.Serves(abi.KindGrammar) || d.Serves(abi.KindProgram) {
		request = requestRoom
	}
	if d.Steps() {
		mask, accept = int(abi.MaskWords(uint32(vocabulary)))*4, AcceptRoom*4
	}
	if d.Serves(abi.KindTools) {
		piece = PieceRoom
	}
	return []need{
		{&r.Step, "tgi_logits_step", step},
		{&r.Guard, "tgi_guard_step", guard},
		{&r.View, alloc, d.View * abi.ViewEntrySize},
		{&r.Row, alloc, row * 4},
		{&r.Candidates, alloc, d.Candidates * abi.CandidateSize},
		{&r.config, alloc, config},
		{&r.params, alloc, paramsRoom},
		{&r.tokens, alloc, tokens},
		{&r.request, alloc, request},
		{&r.Piece, alloc, piece},
		{&r.Mask, alloc, mask},
		{&r.Accept, alloc, accept},
		{&r.Text, alloc, text},
		{&r.Ends, alloc, ends},
		{&r.Draft, alloc, guess},
	}
}

// alloc is the function that gives most rooms, and is told how large they are.
const alloc = "tgi_alloc"

// allocate gets all rooms.
func (l *loader) allocate(config int) error {
	var taken []span
	for _, n := range l.rooms.needs(l.d, l.g.vocab.Size(), config) {
		if n.size == 0 {
			continue
		}
		var args []uint64
		if n.fn == alloc {
			args = []uint64{uint64(n.size)}
		}
		at, err := l.call(n.fn, args...)
		if err != nil {
			return err
		}
		*n.at = uint32(at)
		if fault := n.fault(&taken, uint64(l.in.MemoryBytes())); fault != "" {
			return l.in.Break(n.fn, fault)
		}
	}
	return nil
}

// check looks at rooms that were allocated before as allocate does.
func (r *Rooms) check(d Description, vocabulary, config int, memory uint64) error {
	var taken []span
	for _, n := range r.needs(d, vocabulary, config) {
		if n.size == 0 {
			if *n.at != 0 {
				return fmt.Errorf("%s: a room at 0x%x that the guest does not need", n.fn, *n.at)
			}
			continue
		}
		if fault := n.fault(&taken, memory); fault != "" {
			return fmt.Errorf("%s: %s", n.fn, fault)
		}
	}
	return nil
}

// fault says what is wrong with the address of a room, and whether it shares anything with those that were taken
// before; "" where nothing is.
func (n need) fault(taken *[]span, memory uint64) string {
	at, size := uint64(*n.at), uint64(n.size)
	if fault := roomFault(at, size, memory); fault != "" {
		return fault
	}
	for _, s := range *taken {
		if at < s.at+s.size && s.at < at+size {
			return fmt.Sprintf("%d bytes at 0x%x lie in the %d at 0x%x that it gave before", size, at, s.size, s.at)
		}
	}
	*taken = append(*taken, span{at, size})
	return ""
}

// call runs an export from what fuel is left for loading.
func (l *loader) call(fn string, args ...uint64) (uint64, error) {
	stack := make([]uint64, max(1, len(args)))
	copy(stack, args)
	use, err := l.in.Run(l.in.Func(fn), stack, l.left)
	l.left.Fuel -= use.Fuel
	l.left.Burnt += use.Fuel
	l.left.Spent += use.Ran
	return narrow(fn, stack[0]), err
}

// narrow drops what the engine leaves in the high half of a 32-bit result.
func narrow(fn string, v uint64) uint64 {
	if fn == "tgi_alloc" || fn == "tgi_logits_step" || fn == "tgi_guard_step" {
		return uint64(uint32(v))
	}
	return v
}

// checkRoom checks an address that the guest gave for the host to write to.
func checkRoom(in *sandbox.Instance, fn string, at uint32, size uint64) error {
	if fault := roomFault(uint64(at), size, uint64(in.MemoryBytes())); fault != "" {
		return in.Break(fn, fault)
	}
	return nil
}

// roomFault says why the host can't write so many bytes to an address; "" where it can.
func roomFault(at, size, memory uint64) string {
	switch {
	case at == 0:
		return fmt.Sprintf("no room of %d bytes", size)
	case at%abi.Alignment != 0:
		return fmt.Sprintf("address 0x%x is not aligned to %d", at, abi.Alignment)
	case at+size > memory:
		return fmt.Sprintf("%d bytes at 0x%x, the memory has %d", size, at, memory)
	}
	return ""
}

// text copies a text that fn returned, nothing for an empty one.
func text(in *sandbox.Instance, fn string, packed uint64, most int) ([]byte, error) {
	at, n := abi.Unpack(packed)
	m := in.Memory()
	switch {
	case n == 0:
		return nil, nil
	case uint64(at)+uint64(n) > uint64(len(m)):
		return nil, in.Break(fn, fmt.Sprintf("text of %d bytes at 0x%x, the memory has %d", n, at, len(m)))
	case int64(n) > int64(most):
		return nil, in.Break(fn, fmt.Sprintf("text of %d bytes, the limit is %d", n, most))
	}
	return append([]byte(nil), m[at:uint64(at)+uint64(n)]...), nil
}

// accepted reads an error text: nil for none, a *Refusal with it, cut and made UTF-8, or a *sandbox.Fault.
func accepted(in *sandbox.Instance, fn string, packed uint64) error {
	at, n := abi.Unpack(packed)
	m := in.Memory()
	if uint64(at)+uint64(n) <= uint64(len(m)) {
		packed = abi.Pack(at, min(n, abi.MaxText))
	}
	t, err := text(in, fn, packed, abi.MaxText)
	if err != nil || len(t) == 0 {
		return err
	}
	return &Refusal{Text: ErrorText(t)}
}

// ErrorText makes a guest's error text fit to be shown: UTF-8, of at most abi.MaxText bytes.
func ErrorText(b []byte) string {
	return strings.ToValidUTF8(string(b[:min(len(b), abi.MaxText)]), "\uFFFD")
}
