package cuda_test

import (
	"errors"
	"testing"
	"unsafe"

	"tgi/conformance/cuda/fake"
	"tgi/runtime/cuda"
)

// TestDevice goes through everything on a fake device, whose copies are real.
func TestDevice(t *testing.T) {
	d := fake.Load(t)
	list, err := cuda.Devices()
	if err != nil || len(list) != 1 || list[0] != (cuda.Device{Name: "Fake H200", Major: 9, Memory: 1 << 37,
		Bandwidth: 4_916_736_000_000}) {
		t.Errorf("devices %+v, %v", list, err)
	}
	s, err := cuda.NewStream(0)
	if err != nil {
		t.Fatal(err)
	}
	at, err1 := cuda.Malloc(0, 100)
	host, err2 := cuda.HostAlloc(0, 100)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	bytes := unsafe.Slice((*byte)(host), 100)
	copy(bytes, "abcd")
	err = errors.Join(s.Set(at, 'x', 100), s.CopyIn(at, host, 3), s.CopyDevice(unsafe.Add(at, 5), at, 2),
		s.CopyOut(host, at, 100), s.Synchronize())
	if got := string(bytes[:8]); err != nil || got != "abcxxabx" {
		t.Errorf("copied %q, %v", got, err)
	}
	if free, total, err := cuda.MemInfo(0); err != nil || total-free != 200 {
		t.Errorf("%d of %d bytes are free: %v", free, total, err)
	}
	d.Fail(700)
	var failed *cuda.Error
	if err := s.Synchronize(); !errors.As(err, &failed) || failed.Code != 700 {
		t.Errorf("a failing device: %v", err)
	}
	d.Fail(0)
	if err := errors.Join(cuda.Free(0, at), cuda.FreeHost(host), s.Close()); err != nil {
		t.Error(err)
	}
	if c := d.Counters(); c.Live != 0 || c.Streams != 0 {
		t.Errorf("left over: %+v", c)
	}
	if _, err := cuda.Malloc(1, 1); err == nil {
		t.Error("memory of a device that is not there")
	}
}
