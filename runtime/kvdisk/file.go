package kvdisk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"

	"tgi/runtime/kv"
	"tgi/runtime/regular"
)

// A file is: magic, space, key, the sizes of source and data, checksum; source; data. The checksum is of all the rest.
const (
	magic      = "tgikv\x00\x00\x01"
	spaceAt    = len(magic)
	keyAt      = spaceAt + len(ID{})
	sizesAt    = keyAt + len(kv.Key{})
	checksumAt = sizesAt + 16
	headBytes  = checksumAt + 8
)

// errDamaged says that a file is not what was written.
var errDamaged = errors.New("damaged")

// fileBytes is the size of a file.
func fileBytes(source, data int) int64 { return int64(headBytes) + int64(source) + int64(data) }

// head returns a file up to its data.
func head(id ID, b kv.Block, data []byte) []byte {
	h := make([]byte, headBytes, headBytes+len(b.Source))
	copy(h, magic)
	copy(h[spaceAt:], id[:])
	copy(h[keyAt:], b.Key[:])
	binary.LittleEndian.PutUint64(h[sizesAt:], uint64(len(b.Source)))
	binary.LittleEndian.PutUint64(h[sizesAt+8:], uint64(len(data)))
	h = append(h, b.Source...)
	binary.LittleEndian.PutUint64(h[checksumAt:], checksum(h, data))
	return h
}

// checksum is that of a file, given what is before its data, and the data.
func checksum(h, data []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(h[:checksumAt]) // it never fails
	_, _ = d.Write(h[headBytes:])
	_, _ = d.Write(data)
	return d.Sum64()
}

// read reads a block's data from its file. The error wraps errDamaged if the file is not what was written for the
// block, such as a pipe or a link in its place.
func read(path string, id ID, b kv.Block, data []byte) error {
	f, size, err := regular.OpenSized(path, os.O_RDONLY|regular.NoLink)
	if errors.Is(err, regular.ErrOther) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if want := fileBytes(len(b.Source), len(data)); size != want {
		return fmt.Errorf("%w: %d bytes, want %d", errDamaged, size, want)
	}
	return decode(f, id, b, data)
}

// decode is read for a file that is open and has the right size.
func decode(r io.Reader, id ID, b kv.Block, data []byte) error {
	h := make([]byte, headBytes+len(b.Source))
	for _, part := range [][]byte{h, data} {
		if _, err := io.ReadFull(r, part); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: it is cut short", errDamaged)
		} else if err != nil {
			return err
		}
	}
	want := head(id, b, data) // which is another if only a bit of the data is
	if !bytes.Equal(h, want) {
		return fmt.Errorf("%w: it is of another block, or its checksum is wrong", errDamaged)
	}
	return nil
}

// write writes a block's file, and closes it.
func write(f *os.File, id ID, b kv.Block, data []byte) error {
	_, err := f.Write(head(id, b, data))
	if err == nil {
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Close())
}
