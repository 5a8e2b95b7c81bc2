package sandbox

import (
	"encoding/binary"
	"fmt"
)

// The guest's view of WASI preview 1: enough for a standard library to start, nothing of the outside. The clock stands
// still but for the guest's own sleeps, which take no time; random numbers come from the lease's seed, standard output
// and error go to the log, and there are no arguments, environment, files or sockets.
const (
	wasiModule = "wasi_snapshot_preview1"

	errnoSuccess = 0
	errnoBadFD   = 8
	errnoFault   = 21
	errnoInval   = 28
	errnoNoSys   = 52

	// wasiTime is 2020-01-01 in nanoseconds, for every clock. (Zero makes Go's runtime stop: "nanotime returning
	// zero".)
	wasiTime = 1577836800_000000000

	maxVectors = 1024       // buffers of one fd_write
	vectorFuel = 5          // for each of them
	maxSleep   = 3600 * 1e9 // one sleep moves the clock by an hour at most
)

// wasi returns the functions of the stub. Signatures are those of the preview 1 interface in its core form.
func wasi() []HostFunc {
	list := make([]HostFunc, 0, 64)
	add := func(name, sig string, f func(in *Instance, stack []uint64)) {
		list = append(list, HostFunc{wasiModule, name, Sig(sig), f})
	}
	add("args_sizes_get", "ii:i", wasiNone)
	add("args_get", "ii:i", wasiSuccess)
	add("environ_sizes_get", "ii:i", wasiNone)
	add("environ_get", "ii:i", wasiSuccess)
	add("clock_time_get", "iIi:i", wasiClock)
	add("random_get", "ii:i", wasiRandom)
	add("fd_write", "iiii:i", wasiWrite)
	add("fd_prestat_get", "ii:i", func(_ *Instance, stack []uint64) { stack[0] = errnoBadFD })
	add("poll_oneoff", "iiii:i", wasiPoll)
	add("sched_yield", ":i", func(_ *Instance, stack []uint64) { stack[0] = errnoSuccess })
	add("proc_exit", "i:", func(in *Instance, stack []uint64) {
		in.Fail(fmt.Errorf("%w: the guest called proc_exit(%d)", ErrTrap, uint32(stack[0])))
	})
	for name, sig := range map[string]string{
		"clock_res_get": "ii:i", "fd_advise": "iIIi:i", "fd_allocate": "iII:i", "fd_close": "i:i", "fd_datasync": "i:i",
		"fd_fdstat_get": "ii:i", "fd_fdstat_set_flags": "ii:i", "fd_fdstat_set_rights": "iII:i",
		"fd_filestat_get":      "ii:i",
		"fd_filestat_set_size": "iI:i", "fd_filestat_set_times": "iIIi:i", "fd_pread": "iiiIi:i",
		"fd_prestat_dir_name": "iii:i", "fd_pwrite": "iiiIi:i", "fd_read": "iiii:i", "fd_readdir": "iiiIi:i",
		"fd_renumber": "ii:i", "fd_seek": "iIii:i", "fd_sync": "i:i", "fd_tell": "ii:i",
		"path_create_directory": "iii:i", "path_filestat_get": "iiiii:i", "path_filestat_set_times": "iiiiIIi:i",
		"path_link": "iiiiiii:i", "path_open": "iiiiiIIii:i", "path_readlink": "iiiiii:i",
		"path_remove_directory": "iii:i", "path_rename": "iiiiii:i", "path_symlink": "iiiii:i",
		"path_unlink_file": "iii:i", "proc_raise": "i:i", "sock_accept": "iii:i",
		"sock_recv": "iiiiii:i", "sock_send": "iiiii:i", "sock_shutdown": "ii:i",
	} {
		add(name, sig, func(_ *Instance, stack []uint64) { stack[0] = errnoNoSys })
	}
	return list
}

func wasiSuccess(_ *Instance, stack []uint64) { stack[0] = errnoSuccess }

// wasiNone answers that there are 0 strings of 0 bytes.
func wasiNone(in *Instance, stack []uint64) {
	n, size := in.peek(stack[0], 4), in.peek(stack[1], 4)
	if n == nil || size == nil {
		stack[0] = errnoFault
		return
	}
	clear(n)
	clear(size)
	stack[0] = errnoSuccess
}

func wasiClock(in *Instance, stack []uint64) {
	t := in.peek(stack[2], 8)
	if t == nil {
		stack[0] = errnoFault
		return
	}
	binary.LittleEndian.PutUint64(t, wasiTime+in.slept)
	stack[0] = errnoSuccess
}

// wasiPoll is poll_oneoff(subscriptions, events, count, number): a sleep ends at once, and the clock has moved on by
// its length. (Go's runtime sleeps in places and dies when it can't.) What waits for files is not supported.
func wasiPoll(in *Instance, stack []uint64) {
	const subscriptionBytes, eventBytes, clockTag = 48, 32, 0
	if uint32(stack[2]) == 0 {
		stack[0] = errnoInval
		return
	}
	s, e, n := in.peek(stack[0], subscriptionBytes), in.peek(stack[1], eventBytes), in.peek(stack[3], 4)
	if s == nil || e == nil || n == nil {
		stack[0] = errnoFault
		return
	}
	if s[8] != clockTag {
		stack[0] = errnoNoSys
		return
	}
	timeout, absolute := binary.LittleEndian.Uint64(s[24:]), s[40]&1 != 0
	if absolute {
		timeout -= min(timeout, wasiTime+in.slept)
	}
	in.slept += min(timeout, maxSleep)
	user := binary.LittleEndian.Uint64(s)
	clear(e)
	binary.LittleEndian.PutUint64(e, user)
	binary.LittleEndian.PutUint32(n, 1)
	stack[0] = errnoSuccess
}

func wasiRandom(in *Instance, stack []uint64) {
	b := in.peek(stack[0], stack[1])
	if b == nil && uint32(stack[1]) > 0 {
		stack[0] = errnoFault
		return
	}
	in.Charge(int64(len(b)))
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, in.seed.Uint64())
		b = b[8:]
	}
	if len(b) > 0 {
		var last [8]byte
		binary.LittleEndian.PutUint64(last[:], in.seed.Uint64())
		copy(b, last[:])
	}
	stack[0] = errnoSuccess
}

// wasiWrite is fd_write(fd, vectors, count, written): standard output and error go to the log.
func wasiWrite(in *Instance, stack []uint64) {
	level := LevelStdout
	switch uint32(stack[0]) {
	case 1:
	case 2:
		level = LevelStderr
	default:
		stack[0] = errnoBadFD
		return
	}
	count := uint32(stack[2])
	if count > maxVectors {
		stack[0] = errnoInval
		return
	}
	vectors, written := in.peek(stack[1], uint64(count)*8), in.peek(stack[3], 4)
	if vectors == nil && count > 0 || written == nil {
		stack[0] = errnoFault
		return
	}
	in.Charge(int64(count) * vectorFuel)
	total := uint32(0)
	for ; len(vectors) > 0; vectors = vectors[8:] {
		ptr, size := binary.LittleEndian.Uint32(vectors), binary.LittleEndian.Uint32(vectors[4:])
		b := in.peek(uint64(ptr), uint64(size))
		if b == nil && size > 0 {
			stack[0] = errnoFault
			return
		}
		in.Charge(int64(len(b)))
		in.write(level, b)
		total += size
	}
	binary.LittleEndian.PutUint32(written, total)
	stack[0] = errnoSuccess
}
