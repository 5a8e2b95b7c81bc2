//go:build !linux

package cuda

import (
	"fmt"
	"runtime"
	"unsafe"
)

// errSystem says that CUDA is for another system.
var errSystem = fmt.Errorf("%w: it needs Linux, and this is %s: set [runtime] device = \"cpu\"", ErrUnavailable,
	runtime.GOOS)

// Load returns an error that wraps ErrUnavailable.
func Load(...string) error { return errSystem }

// DriverPresent is false.
func DriverPresent() bool { return false }

// Devices returns an error that wraps ErrUnavailable.
func Devices() ([]Device, error) { return nil, errSystem }

// Processors fails: Load has failed.
func Processors(int) (int, error) { return 0, errSystem }

// MemInfo fails: Load has failed.
func MemInfo(int) (free, total int64, err error) { return 0, 0, errSystem }

// Malloc fails: Load has failed.
func Malloc(int, int64) (unsafe.Pointer, error) { return nil, errSystem }

// Free fails: Load has failed.
func Free(int, unsafe.Pointer) error { return errSystem }

// HostAlloc fails: Load has failed.
func HostAlloc(int, int64) (unsafe.Pointer, error) { return nil, errSystem }

// FreeHost fails: Load has failed.
func FreeHost(unsafe.Pointer) error { return errSystem }

// Stream is a queue of work of a device; there is none here.
type Stream struct{}

// NewStream fails: Load has failed.
func NewStream(int) (*Stream, error) { return nil, errSystem }

// Pointer is null.
func (*Stream) Pointer() unsafe.Pointer { return nil }

// Close fails: there are no streams.
func (*Stream) Close() error { return errSystem }

// Synchronize fails: there are no streams.
func (*Stream) Synchronize() error { return errSystem }

// AbortCapture fails.
func (*Stream) AbortCapture() error { return errSystem }

// CopyIn fails: there are no streams.
func (*Stream) CopyIn(_, _ unsafe.Pointer, _ int) error { return errSystem }

// CopyOut fails: there are no streams.
func (*Stream) CopyOut(_, _ unsafe.Pointer, _ int) error { return errSystem }

// CopyDevice fails: there are no streams.
func (*Stream) CopyDevice(_, _ unsafe.Pointer, _ int) error { return errSystem }

// Set fails: there are no streams.
func (*Stream) Set(unsafe.Pointer, byte, int) error { return errSystem }

// SaveSignals does nothing.
func SaveSignals() {}

// RestoreSignals does nothing.
func RestoreSignals() {}
