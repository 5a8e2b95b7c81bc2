package replay

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxInput bounds a file that a command reads, in bytes.
const maxInput = 1 << 30

// ReadInput reads a file, or what comes on the pipe for "-".
func ReadInput(pipe io.Reader, name string) ([]byte, error) {
	from := pipe
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	data, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("%s has more than %d bytes", InputName(name), maxInput)
	}
	return data, err
}

// InputName is what errors call an input.
func InputName(name string) string {
	if name == "-" {
		return "the input"
	}
	return name
}

// Load reads the exchanges of a file, or "-" for the pipe. Where request names a file, that has the body of the one
// request, which was sent to path, and the other file its reply.
func Load(pipe io.Reader, name, request, path string) ([]Exchange, error) {
	data, err := ReadInput(pipe, name)
	if err != nil {
		return nil, err
	}
	if request == "" {
		return Read(InputName(name), bytes.NewReader(data))
	}
	body, err := ReadInput(pipe, request)
	if err != nil {
		return nil, err
	}
	e, err := Of(path, body, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", InputName(request), err)
	}
	return []Exchange{e}, nil
}
