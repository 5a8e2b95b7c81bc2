package tensors

import (
	"fmt"
	"runtime/debug"
)

// Guard turns a fault in mapped memory into an error: a file that is truncated while it is read has no bytes where
// there were some. It is for one goroutine, used as in
//
//	defer tensors.Guard(&err)()
func Guard(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // of runtime.Error, for faults alone
			*err = fmt.Errorf("%w: a file was cut off while it was read (%v)", ErrFormat, fault)
		default:
			panic(fault)
		}
	}
}
