package batches

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"

	"tgi/runtime/regular"
)

// journal has the results of a batch in the order in which they came. A record is a line: the checksum of the rest in
// eight hexadecimal digits, the index of the request, + or - for an answer or an error, and the line of the result.
type journal struct {
	file *os.File
	size int64
	// at is where the record of each request begins, plus 1; 0 is one that has none.
	at []int64
	// completed and failed count the records by kind.
	completed, failed int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openJournal opens the journal of a batch with so many requests. What follows the last record that is whole is cut
// off.
func openJournal(path string, requests int) (*journal, error) {
	f, err := regular.Open(path, os.O_CREATE|os.O_RDWR|regular.NoLink)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f, at: make([]int64, requests)}
	if err := j.recover(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// recover reads the records that are there.
func (j *journal) recover() error {
	r := bufio.NewReaderSize(j.file, 64<<10)
	for {
		text, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		index, ok, _, whole := parseRecord(text)
		if err != nil || !whole || index >= len(j.at) || j.at[index] != 0 {
			break
		}
		j.note(index, ok)
		j.size += int64(len(text))
	}
	if err := j.file.Truncate(j.size); err != nil {
		return err
	}
	_, err := j.file.Seek(j.size, io.SeekStart)
	return err
}

// note notes that a record of a request begins where the journal ends.
func (j *journal) note(index int, ok bool) {
	if j.at[index] = j.size + 1; ok {
		j.completed++
	} else {
		j.failed++
	}
}

// appendRecord writes a record.
func appendRecord(b []byte, index int, ok bool, result []byte) []byte {
	kind := byte('-')
	if ok {
		kind = '+'
	}
	rest := append(append(strconv.AppendInt([]byte{' '}, int64(index), 10), ' ', kind, ' '), result...)
	return append(append(fmt.Appendf(b, "%08x", crc32.Checksum(rest, castagnoli)), rest...), '\n')
}

// parseRecord reads a record with its end, and whether it is whole.
func parseRecord(text []byte) (index int, ok bool, result []byte, whole bool) {
	if len(text) < 14 || text[len(text)-1] != '\n' {
		return 0, false, nil, false
	}
	var sum [4]byte
	rest := text[8 : len(text)-1]
	if _, err := hex.Decode(sum[:], text[:8]); err != nil ||
		crc32.Checksum(rest, castagnoli) != uint32(sum[0])<<24|uint32(sum[1])<<16|uint32(sum[2])<<8|uint32(sum[3]) {
		return 0, false, nil, false
	}
	number, rest, found := bytes.Cut(rest[1:], []byte{' '})
	index, err := strconv.Atoi(string(number))
	if err != nil || index < 0 || !found || len(rest) < 2 || rest[0] != '+' && rest[0] != '-' {
		return 0, false, nil, false
	}
	return index, rest[0] == '+', rest[2:], true
}

// has reports whether a request has a record.
func (j *journal) has(index int) bool { return j.at[index] != 0 }

// add appends the record of a request that has none. One that could not be written whole is taken back.
func (j *journal) add(index int, ok bool, result []byte) error {
	record := appendRecord(nil, index, ok, result)
	if _, err := j.file.WriteAt(record, j.size); err != nil {
		return errors.Join(disk(err), j.file.Truncate(j.size))
	}
	j.note(index, ok)
	j.size += int64(len(record))
	return nil
}

// result returns the result of a request that has a record.
func (j *journal) result(index int) (text []byte, ok bool, err error) {
	text, err = bufio.NewReader(io.NewSectionReader(j.file, j.at[index]-1, j.size-j.at[index]+1)).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("%w: the journal ends before the record of request %d", errDamaged, index)
	}
	if err != nil {
		return nil, false, err
	}
	n, ok, text, whole := parseRecord(text)
	if !whole || n != index {
		return nil, false, fmt.Errorf("%w: the record of request %d", errDamaged, index)
	}
	return text, ok, nil
}
