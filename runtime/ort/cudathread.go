package ort

import "runtime"

// deviceThread makes calls on an operating system thread of its own, one at a time. CUDA keeps the current device and
// the graphs that ONNX Runtime captured by thread.
type deviceThread struct {
	work chan func()
	done chan any // what a call panicked with, nil for nothing
}

func newDeviceThread() *deviceThread {
	t := &deviceThread{work: make(chan func()), done: make(chan any)}
	go t.loop()
	return t
}

func (t *deviceThread) loop() {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	for f := range t.work {
		t.done <- attempt(f)
	}
	close(t.done)
}

// attempt calls f and returns what it panicked with.
func attempt(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}

// do makes a call, waits for it and panics if it did. Only one goroutine at a time may use it.
func (t *deviceThread) do(f func()) {
	t.work <- f
	if p := <-t.done; p != nil {
		panic(p)
	}
}

// end ends the thread.
func (t *deviceThread) end() {
	close(t.work)
	<-t.done
}
