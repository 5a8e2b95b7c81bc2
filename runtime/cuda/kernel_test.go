package cuda_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"tgi/conformance/cuda/fake"
	"tgi/runtime/cuda"
	"tgi/runtime/llm"
	"tgi/runtime/reduce"
)

// aloneEnv says that a process runs one test only.
const aloneEnv = "TGI_TEST_ALONE"

// TestKernel loads our kernel and launches it on a fake device, which runs it. It does so in a process of its own, as a
// process loads one fake.
func TestKernel(t *testing.T) {
	if os.Getenv(aloneEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKernel$")
		cmd.Env = append(os.Environ(), aloneEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	d := fake.Load(t)
	before := d.Counters()
	for _, c := range []struct{ ptx, name, want string }{
		{"no PTX", reduce.KernelName, "unsupported version"},
		{reduce.Kernel, "other", "fake device fails"},
	} {
		var failed *cuda.Error
		if _, err := cuda.LoadKernel(0, c.ptx, c.name); !errors.As(err, &failed) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	k, err := cuda.LoadKernel(0, reduce.Kernel, reduce.KernelName)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Counters().Since(before); got.Modules != 1 {
		t.Errorf("%d modules", got.Modules)
	}
	s, err := cuda.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	const vocab = 1000
	q := []llm.Reduction{{Scale: 1, Draw: 0.5, Raw: true}}
	words, _ := reduce.AppendRequest(nil, q, vocab)
	var at [3]unsafe.Pointer
	for i, bytes := range []int{vocab * 4, len(words) * 4, reduce.AnswerBytes} {
		if at[i], err = cuda.Malloc(0, int64(bytes)); err != nil {
			t.Fatal(err)
		}
	}
	x := unsafe.Slice((*float32)(at[0]), vocab) // the fake's memory is the host's
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	copy(unsafe.Slice((*uint32)(at[1]), len(words)), words)
	address := func(i int) uint64 { return uint64(uintptr(at[i])) }
	if err := k.Launch(s, 1, reduce.Threads, address(0), address(1), 0, address(2), vocab); err != nil {
		t.Fatal(err)
	}
	got := new(reduce.Answers).Read(unsafe.Slice((*byte)(at[2]), reduce.AnswerBytes))
	if want := reduce.Row(x, &q[0]); !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v, want %+v", got[0], want)
	}
	if err := k.Launch(s, 1, reduce.Threads); err == nil {
		t.Error("launched without arguments")
	}
	d.Fail(700)
	if err := k.Launch(s, 1, reduce.Threads, 0, 0, 0, 0, 0); err == nil {
		t.Error("launched on a failing device")
	}
	d.Fail(0)
	for _, p := range at {
		err = errors.Join(err, cuda.Free(0, p))
	}
	if err := errors.Join(err, k.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if got := d.Counters().Since(before); got.Modules != 0 || got.Live != 0 || got.Launches != 1 {
		t.Errorf("left over: %+v", got)
	}
}
