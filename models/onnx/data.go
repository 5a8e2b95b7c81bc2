package onnx

import (
	"bufio"
	"fmt"
	"io"
)

// dataAlign is the alignment of tensors in the external file. The format asks for the page size,
// so that a runtime can map a tensor separately.
const dataAlign = 4096

// DataWriter streams tensors to the external data file. It is not safe for concurrent use. Close
// flushes it but does not close the underlying file.
type DataWriter struct {
	w     *bufio.Writer
	at    int64
	begin int64
	open  bool
	err   error
}

// NewDataWriter writes to w from its start.
func NewDataWriter(w io.Writer) *DataWriter {
	return &DataWriter{w: bufio.NewWriterSize(w, largePage)}
}

// largePage is how many bytes are written at once, at multiples of it: file systems then keep them as large pages of
// memory, which a runtime can map as such.
const largePage = 2 << 20

// Begin pads to the next tensor's offset.
func (d *DataWriter) Begin() {
	if d.open && d.err == nil {
		d.err = fmt.Errorf("onnx: Begin before End of the previous tensor")
	}
	d.open = true
	pad := (dataAlign - d.at%dataAlign) % dataAlign
	var zeros [dataAlign]byte
	d.Write(zeros[:pad])
	d.begin = d.at
}

// Write appends bytes of the tensor.
func (d *DataWriter) Write(p []byte) (n int, _ error) {
	if d.err != nil {
		return 0, d.err
	}
	for n < len(p) && d.err == nil {
		// No more than is free: the buffer would pass a longer piece on as it is.
		var more int
		more, d.err = d.w.Write(p[n:min(len(p), n+d.w.Available())])
		n += more
		if d.err == nil && d.w.Available() == 0 {
			d.err = d.w.Flush()
		}
	}
	d.at += int64(n)
	return n, d.err
}

// End ends the tensor and returns its position.
func (d *DataWriter) End() Ref {
	d.open = false
	return Ref{Offset: d.begin, Length: d.at - d.begin}
}

// Tensor writes one whole tensor.
func (d *DataWriter) Tensor(p []byte) Ref {
	d.Begin()
	d.Write(p)
	return d.End()
}

// Size returns the bytes written so far.
func (d *DataWriter) Size() int64 { return d.at }

// Close flushes and returns the first error of all writes.
func (d *DataWriter) Close() error {
	if d.err == nil {
		d.err = d.w.Flush()
	}
	return d.err
}
