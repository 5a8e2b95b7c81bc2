package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tgi/runtime/regular"
	"tgi/server"
	"tgi/server/share"
)

// The lock of a folder of uploads is that of a file in it, which stays: who deleted it would let two in. It goes with
// the process that has it, so that what a crash leaves is in nobody's way.
const (
	lockFile = ".lock"
	// lockWait is how long it is waited for: a change takes as long as the disk takes for a module.
	lockWait = 10 * time.Second
)

// errNoLocks: nothing keeps other processes from changing the folder.
var errNoLocks = errors.New("the file system has no locks")

// lock has nobody else change the folder, which is there, until unlock is called. Its error is a server.ErrUploadsBusy
// where somebody else does for longer than lockWait. With an errNoLocks the folder can be used all the same, and unlock
// be called.
func (dir uploadFolder) lock(ctx context.Context) (unlock func(), err error) {
	return dir.lockWithin(ctx, lockWait)
}

// lockWithin is lock with another bound.
func (dir uploadFolder) lockWithin(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	if dir == "" {
		return func() {}, nil
	}
	path := filepath.Join(string(dir), lockFile)
	file, err := regular.Open(path, os.O_RDWR|os.O_CREATE|regular.NoLink)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("%w for %s", server.ErrUploadsBusy, wait))
	defer cancel()
	unlock = func() { _ = file.Close() } // which ends the lock
	err = share.Lock(ctx, file)
	switch {
	case err == nil:
	case noLocks(err):
		err = fmt.Errorf("%w: %w", errNoLocks, err)
	default:
		unlock()
		return nil, err
	}
	return unlock, err
}

// noLocks reports whether a lock failed because the file system has none: network file systems may be mounted without.
func noLocks(err error) bool {
	return errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK)
}

// lockUploads is uploadFolder.lock, which makes do without locks, and says so.
func (f *manager) lockUploads(ctx context.Context) (unlock func(), err error) {
	unlock, err = f.folder.lock(ctx)
	if errors.Is(err, errNoLocks) {
		f.log.Warn("the folder of uploads can't be locked: no other server may change it at the same time", "folder",
			string(f.folder), "error", err)
		err = nil
	}
	return unlock, err
}

// lockToKeep is lockUploads for an upload that is to be kept, with the folder made where it is not there. Its error is
// what it means to who uploads.
func (f *manager) lockToKeep(ctx context.Context) (unlock func(), err error) {
	if f.folder != "" {
		err = os.MkdirAll(string(f.folder), 0o700)
	}
	if err == nil {
		unlock, err = f.lockUploads(ctx)
	}
	if err == nil || errors.Is(err, server.ErrUploadsBusy) || ctx.Err() != nil {
		return unlock, err
	}
	return nil, fmt.Errorf("%w: %w", whyNotKept(err), f.folder.notKept(err))
}
