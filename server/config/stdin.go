package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Stdin is the name of the standard input where a file of settings is named.
const Stdin = "-"

// Names of the standard input in errors and origins, and how long it may take to end: what writes it may ask somebody
// for a password, or another machine.
const (
	stdinName = "standard input"
	stdinTime = time.Minute
)

// input is the settings that came on the standard input, which is read once: a reload has the same text.
type input struct {
	once sync.Once
	text []byte
	err  error
}

// read returns the text, and reads it the first time.
func (i *input) read() ([]byte, error) {
	i.once.Do(func() { i.text, i.err = readInput(os.Stdin, MaxFile, stdinTime) })
	return i.text, i.err
}

// readInput reads a pipe, a terminal or a file to its end, at most so many bytes and for so long. An empty one is
// refused: what should have written it has failed, and a server without settings has no keys.
func readInput(f *os.File, most int, within time.Duration) ([]byte, error) {
	fd := int32(f.Fd())
	if fd < 0 {
		return nil, fmt.Errorf("%s: %w", stdinName, os.ErrClosed)
	}
	end := time.Now().Add(within)
	var text []byte
	part := make([]byte, 64<<10)
	for {
		left := time.Until(end)
		if left <= 0 {
			return nil, fmt.Errorf("%s: it must end within %s, it has not after %d bytes", stdinName, within, len(text))
		}
		// A deadline of the file would do, were its description not shared with other processes.
		wait := []unix.PollFd{{Fd: fd, Events: unix.POLLIN}}
		if n, err := unix.Poll(wait, int(left/time.Millisecond)+1); n == 0 || errors.Is(err, unix.EINTR) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", stdinName, err)
		}
		n, err := f.Read(part)
		if text = append(text, part[:n]...); len(text) > most {
			return nil, fmt.Errorf("%s: it must have at most %d bytes, it has more", stdinName, most)
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: %w", stdinName, err)
		case len(bytes.TrimSpace(text)) == 0:
			return nil, fmt.Errorf("%s: it must hold settings, given nothing", stdinName)
		default:
			return text, nil
		}
	}
}
