package synth

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/runtime/token"
)

// tiny is Qwen's shape in small; its embedding takes several chunks.
func tiny() shape {
	s := shapes["qwen2.5-0.5b"]
	s.hidden, s.intermediate, s.layers, s.heads, s.kvHeads, s.headDim = 256, 96, 2, 4, 2, 64
	s.vocab, s.maxPositions, s.bos, s.eos = 3000, 64, 2990, []int{2995, 2990, 7}
	return s
}

func TestShapesAreThePublicOnes(t *testing.T) {
	params := map[string]int64{"smollm2-135m": 134515008, "qwen2.5-0.5b": 494032768, "llama3.2-1b": 1235814400,
		"llama3.1-8b": 8030261248, "qwen3-30b-a3b": 30532122624}
	if got := Shapes(); len(got) != len(params) || !slices.IsSorted(got) {
		t.Fatalf("shapes %v", got)
	}
	for name, want := range params {
		s, err := lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		for _, tensor := range s.tensors() {
			bytes, err := tensor.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			n += bytes / 2
		}
		if n != want {
			t.Errorf("%s has %d parameters, want %d", name, n, want)
		}
		data, err := json.Marshal(s.config())
		if err != nil {
			t.Fatal(err)
		}
		c, err := hf.ParseConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		if c.Vocab != s.vocab || c.Layers != s.layers || c.HeadDim != s.headDim || c.QKVBias != s.qkvBias ||
			c.Tied == s.untied {
			t.Errorf("%s: config.json reads as %+v", name, c)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	if err := Write(t.TempDir(), "gpt-7", 1); err == nil ||
		err.Error() != `shape "gpt-7" is unknown, want one of llama3.1-8b, llama3.2-1b, qwen2.5-0.5b, qwen3-30b-a3b, smollm2-135m` {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, "smollm2-135m", 1); err == nil ||
		!strings.Contains(err.Error(), "holds 1 entries, want an empty folder") {
		t.Errorf("got %v", err)
	}
}

func written(t *testing.T, s shape, seed uint64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	if err := s.write(dir, seed); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheckpointLoadsAndBuilds(t *testing.T) {
	s := tiny()
	ck, err := hf.Open(written(t, s, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	if got := ck.EOS(); !slices.Equal(got, []uint32{7, 2990, 2995}) {
		t.Errorf("ends are %v", got)
	}
	if _, err := decoder.Build(ck, io.Discard, decoder.Options{Weights: models.Int4}); err != nil {
		t.Error(err)
	}
	for _, tensor := range s.tensors() {
		got, err := ck.Tensors.Tensor(tensor.Name)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, got.Len())
		if err := got.Floats(x, 0); err != nil {
			t.Fatal(err)
		}
		var sum, squares float64
		for _, v := range x {
			sum += float64(v)
			squares += (float64(v) - tensor.mean) * (float64(v) - tensor.mean)
		}
		n := float64(len(x))
		mean, deviation := sum/n, math.Sqrt(squares/n)
		if slack := 5 * tensor.deviation / math.Sqrt(n); math.Abs(mean-tensor.mean) > slack+0.002 ||
			math.Abs(deviation/tensor.deviation-1) > 5/math.Sqrt(2*n)+0.01 {
			t.Errorf("%s: mean %g, deviation %g; want %g, %g", tensor.Name, mean, deviation, tensor.mean,
				tensor.deviation)
		}
	}
}

func TestBytesDependOnTheSeedAlone(t *testing.T) {
	read := func(dir string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, safetensors.SingleFile))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := read(written(t, tiny(), 1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	if !bytes.Equal(first, read(written(t, tiny(), 1))) {
		t.Error("the bytes depend on the number of processors")
	}
	if bytes.Equal(first, read(written(t, tiny(), 2))) {
		t.Error("the bytes do not depend on the seed")
	}
	// Chunks must not repeat each other.
	body := first[len(first)-8*chunk:]
	if bytes.Equal(body[:1000], body[2*chunk:2*chunk+1000]) {
		t.Error("chunks repeat")
	}
}

func TestTokenizerLoadsAndRoundTrips(t *testing.T) {
	for _, s := range []shape{tiny(), shapes["smollm2-135m"], shapes["llama3.2-1b"]} {
		data, err := json.Marshal(s.tokenizer())
		if err != nil {
			t.Fatal(err)
		}
		tok, err := token.Load(data)
		if err != nil {
			t.Fatal(err)
		}
		if tok.VocabSize() != s.vocab {
			t.Errorf("vocabulary of %d, want %d", tok.VocabSize(), s.vocab)
		}
		text := "Hello wörld 🙂\n\x00 tail"
		ids := tok.Encode(text, true)
		if len(ids) != len(text) || tok.Decode(ids, true) != text {
			t.Errorf("%q became %v and %q", text, ids, tok.Decode(ids, true))
		}
		if got := tok.Encode(eosText, true); !slices.Equal(got, []uint32{uint32(s.eos[0])}) ||
			!tok.Special(uint32(s.bos)) {
			t.Errorf("the end is %v", got)
		}
	}
}

func TestMadeUpWordsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for n := range 160000 {
		w := madeUp(n)
		if seen[w] {
			t.Fatalf("word %d is %q again", n, w)
		}
		seen[w] = true
	}
}

func TestAlphabetIsThatOfByteLevelBPE(t *testing.T) {
	a := hf.ByteAlphabet
	want := map[byte]rune{' ': 'Ġ', '\n': 'Ċ', 'a': 'a', 0: 'Ā', 0x7f: 'ġ', 0xa0: 'ł', 0xad: 'Ń', 0xff: 'ÿ'}
	got := map[byte]rune{}
	for b := range want {
		got[b] = a[b]
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("alphabet %q, want %q", got, want)
	}
}
