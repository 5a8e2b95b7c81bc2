package kvevents

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// decode reads one value of msgpack.
func decode(t *testing.T, b []byte) (any, []byte) {
	t.Helper()
	list := func(n int, b []byte) (any, []byte) {
		out := make([]any, n)
		for i := range out {
			out[i], b = decode(t, b)
		}
		return out, b
	}
	switch c := b[0]; {
	case c < 0x80:
		return uint64(c), b[1:]
	case c&0xf0 == 0x90:
		return list(int(c&15), b[1:])
	case c&0xe0 == 0xa0:
		return string(b[1 : 1+c&31]), b[1+c&31:]
	case c == 0xc0:
		return nil, b[1:]
	case c == 0xcb:
		return math.Float64frombits(binary.BigEndian.Uint64(b[1:])), b[9:]
	case c == 0xcc:
		return uint64(b[1]), b[2:]
	case c == 0xcd:
		return uint64(binary.BigEndian.Uint16(b[1:])), b[3:]
	case c == 0xce:
		return uint64(binary.BigEndian.Uint32(b[1:])), b[5:]
	case c == 0xcf:
		return binary.BigEndian.Uint64(b[1:]), b[9:]
	case c == 0xdc:
		return list(int(binary.BigEndian.Uint16(b[1:])), b[3:])
	case c == 0xdd:
		return list(int(binary.BigEndian.Uint32(b[1:])), b[5:])
	}
	t.Fatalf("not of those that are written: %x", b)
	return nil, nil
}

// mirror is what a reader of events knows: the blocks' parents and tokens as text, by hash.
type mirror map[uint64]string

// apply reads a batch as a router does.
func (m mirror) apply(t *testing.T, batch []byte) {
	t.Helper()
	v, rest := decode(t, batch)
	whole := v.([]any)
	if len(whole) != 3 || len(rest) > 0 || whole[0].(float64) < 1e9 || whole[2] != uint64(0) {
		t.Fatalf("a batch is %v and %x", v, rest)
	}
	for _, e := range whole[1].([]any) {
		e := e.([]any)
		switch e[0] {
		case "BlockStored":
			if len(e) != 8 || e[5] != nil || e[6] != "GPU" || e[7] != nil {
				t.Fatalf("%v", e)
			}
			parent, tokens, size := e[2], e[3].([]any), int(e[4].(uint64))
			for i, h := range e[1].([]any) {
				m[h.(uint64)] = fmt.Sprint(parent, tokens[i*size:(i+1)*size])
				parent = h
			}
		case "BlockRemoved":
			for _, h := range e[1].([]any) {
				delete(m, h.(uint64))
			}
		case "AllBlocksCleared":
			clear(m)
		default:
			t.Fatalf("%v", e)
		}
	}
}

func open(t *testing.T, buffer int) *Publisher {
	t.Helper()
	p, err := Open(Options{Endpoint: "127.0.0.1:0", Replay: "127.0.0.1:0", Buffer: buffer, Queue: 1 << 20, Peers: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// replay asks for batches from a number on, and applies them.
func (m mirror) replay(t *testing.T, p *Publisher, start uint64, topic ...string) (numbers []uint64) {
	t.Helper()
	request := [][]byte{sequence(start)}
	for _, s := range topic {
		request = append(request, []byte(s))
	}
	err := p.answer(request, func(parts ...[]byte) error {
		n := binary.BigEndian.Uint64(parts[0])
		if numbers = append(numbers, n); n != math.MaxUint64 {
			m.apply(t, parts[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

// flush sends what streams were told.
func flush(p *Publisher, s *Stream) { p.sendStream(s) }

// TestReplayIsTheCache: whatever is stored and removed, and however late it is sent or asked for, the events give the
// blocks that there are.
func TestReplayIsTheCache(t *testing.T) {
	overflowed := false
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := open(t, []int{1 << 20, 2000}[seed%2])
		s := p.Stream("kv@h@m")
		have, follower, next := mirror{}, mirror{}, uint64(0)
		all := []uint64{0}
		for range 30 {
			n := r.IntN(40)
			if seed%3 == 0 && r.IntN(10) == 0 {
				n = 6 * maxChanges // more than may wait
			}
			s.feed.mu.Lock() // nothing is sent meanwhile
			for range n {
				if h := all[r.IntN(len(all))]; r.IntN(2) == 0 && have[h] != "" {
					s.Removed(h)
					delete(have, h)
					continue
				}
				h := r.Uint64N(300) + 1
				parent := h / 3 // a hash says all
				if have[h] != "" {
					continue
				}
				tokens := []llm.Token{llm.Token(h << 9), llm.Token(h)}
				s.Stored(h, parent, parent == 0, tokens)
				var before any = parent
				if parent == 0 {
					before = nil
				}
				have[h] = fmt.Sprint(before, []any{uint64(tokens[0]), uint64(tokens[1])})
				all = append(all, h)
			}
			overflowed = overflowed || s.behind
			s.feed.mu.Unlock()
			flush(p, s)
			late := mirror{}
			late.replay(t, p, 0)
			numbers := follower.replay(t, p, next)
			if next += uint64(len(numbers) - 1); !maps.Equal(late, have) || seed%2 == 0 && !maps.Equal(follower, have) {
				t.Fatalf("seed %d: %d blocks are cached, a late reader knows %d, one that follows %d", seed, len(have),
					len(late), len(follower))
			}
			if seed%2 == 1 {
				next, follower = s.feed.next, maps.Clone(have)
			}
		}
		s.Close()
		if late := (mirror{}); len(late.replay(t, p, 0)) != 2 || len(late) > 0 {
			t.Errorf("after the model %d blocks are left", len(late))
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if !overflowed {
		t.Error("more changes than may wait were not tried")
	}
}

// TestNumbers: they are those of a topic, go on when its model is loaded again, and a request names the topic if there
// are several.
func TestNumbers(t *testing.T) {
	p := open(t, 1<<20)
	a := p.Stream("a")
	a.Stored(1, 0, true, []llm.Token{7})
	flush(p, a)
	a.Close()
	a = p.Stream("a")
	a.Stored(2, 0, true, []llm.Token{7})
	flush(p, a)
	if got := (mirror{}).replay(t, p, 3); !slices.Equal(got, []uint64{3, math.MaxUint64}) {
		t.Errorf("after the model was loaded again: %v", got)
	}
	b := p.Stream("b")
	b.Stored(3, 0, true, []llm.Token{7})
	flush(p, b)
	if got := (mirror{}).replay(t, p, 0); !slices.Equal(got, []uint64{math.MaxUint64}) {
		t.Errorf("of two topics: %v", got)
	}
	m := mirror{}
	if got := m.replay(t, p, 0, "b"); !slices.Equal(got, []uint64{0, math.MaxUint64}) || len(m) != 1 || m[3] == "" {
		t.Errorf("of topic b: %v, %v", got, m)
	}
	if p.answer([][]byte{{1}}, nil) == nil {
		t.Error("a request of one byte is answered")
	}
}
