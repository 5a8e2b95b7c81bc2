package steps

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	"tgi/sdk/go/plugintest"
)

// letters allows one letter after the other of its source, then the end.
type letters struct{ left string }

func (letters) Begin(r Request) (Sequence, error) {
	if r.Language != "letters" || string(r.Params) != `{"n":1}` {
		return nil, errors.New("no " + r.Language)
	}
	return &letters{r.Source}, nil
}

func (l *letters) Accept(token uint32) error {
	if l.left == "" || token != uint32(l.left[0]-'a') {
		return errors.New("not here")
	}
	l.left = l.left[1:]
	return nil
}

func (l *letters) Mask(m *Mask) {
	switch {
	case l.left == "":
		m.Allow(40)
		m.Allow(99) // not in the vocabulary
	case l.left[0] == 'z':
		m.AllowAll()
	default:
		m.Allow(uint32(l.left[0] - 'a'))
	}
}

// named has names for its states, and knows what comes last.
type named struct{ letters }

func (n *named) Key() uint64 { return uint64(len(n.left)) + 1 }
func (n *named) Forced() []uint32 {
	if len(n.left) == 1 {
		return []uint32{uint32(n.left[0] - 'a')}
	}
	return nil
}

// fill counts n words of the vocabulary.
func fill(n int) []string { return slices.Repeat([]string{"x"}, n) }

func TestSteps(t *testing.T) {
	h := plugintest.New(t, fill(41)...)
	Register([]string{"letters"}, func([]byte) (Plugin, error) { return letters{}, nil })
	if err := registry.Init([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if d := string(registry.Description()); !strings.Contains(d,
		`"kinds":["grammar"],"modes":["steps"],"needs":[],"languages":["letters"]`) {
		t.Errorf("described as %s", d)
	}
	if err := registry.Begin([]byte(`{"n":1}`), nil); err == nil {
		t.Error("parameters were taken by a plugin that does not validate them")
	}
	if err := begin([]byte(`{"language":"other","source":"ab","new":[1],"params":{}}`)); err == nil ||
		err.Error() != "no other" {
		t.Errorf("got %v", err)
	}
	if err := begin([]byte(`{"language":"letters","source":"abz","params":{"n":1}}`)); err != nil {
		t.Fatal(err)
	}
	words := []uint32{7, 7}
	for i, want := range []uint32{1, 2} {
		if status := mask(words); status != abi.StatusOK || words[0] != want || words[1] != 0 || key() != 0 ||
			forced() != nil {
			t.Errorf("step %d: status %d, %x", i, status, words)
		}
		if !accept([]uint32{uint32(i)}) {
			t.Errorf("token %d was refused", i)
		}
	}
	if status := mask(words); status != abi.MaskAll {
		t.Errorf("status %d", status)
	}
	if !accept([]uint32{25}) || mask(words) != abi.StatusOK || words[0] != 0 || words[1] != 1<<8 {
		t.Errorf("at the end: %x", words)
	}
	if accept([]uint32{3}) || len(h.Lines) != 1 || h.Lines[0] != "not here" {
		t.Errorf("a token that may not come: %q", h.Lines)
	}
	sequence = &named{letters{"ab"}}
	if key() != 3 || forced() != nil || !accept([]uint32{0}) || !slices.Equal(forced(), []uint32{1}) {
		t.Error("names and forced tokens are not told")
	}
}

func TestMask(t *testing.T) {
	plugintest.New(t, fill(33)...)
	m := NewMask()
	if m.Allow(32); !m.Allowed(32) || m.Allowed(0) || m.Allowed(64) {
		t.Errorf("allowed %x", m.words)
	}
	if m.AllowWords([]uint32{1 << 5, 0, 9}); !m.Allowed(5) || !m.Allowed(32) || m.Allowed(0) {
		t.Errorf("allowed %x", m.words)
	}
	if m.AllowAll(); !m.Allowed(0) {
		t.Error("not all are allowed")
	}
}
