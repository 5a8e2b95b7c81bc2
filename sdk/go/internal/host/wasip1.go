//go:build wasip1

package host

import "unsafe"

// Current is the server.
var Current Host = server{}

//go:wasmimport tgi log
func importLog(level uint32, text unsafe.Pointer, n uint32)

//go:wasmimport tgi vocab_size
func importVocabSize() uint32

//go:wasmimport tgi token_bytes
func importTokenBytes(id uint32, to unsafe.Pointer, room uint32) int32

//go:wasmimport tgi token_flags
func importTokenFlags(id uint32) int32

//go:wasmimport tgi encode
func importEncode(text unsafe.Pointer, n uint32, to unsafe.Pointer, room uint32) int32

//go:wasmimport tgi rand_u64
func importRand() uint64

type server struct{}

func (server) Log(level uint32, text string) {
	importLog(level, unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

func (server) VocabSize() uint32 { return importVocabSize() }

func (server) TokenBytes(id uint32) ([]byte, bool) {
	buf := make([]byte, 64)
	for {
		n := importTokenBytes(id, unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
		if n < 0 {
			return nil, false
		}
		if int(n) <= len(buf) {
			return buf[:n], true
		}
		buf = make([]byte, n)
	}
}

func (server) TokenFlags(id uint32) (uint32, bool) {
	f := importTokenFlags(id)
	return uint32(f), f >= 0
}

func (server) Encode(text string) ([]uint32, bool) {
	ids := make([]uint32, 16)
	for {
		n := importEncode(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)),
			unsafe.Pointer(unsafe.SliceData(ids)), uint32(len(ids)))
		if n < 0 {
			return nil, false
		}
		if int(n) <= len(ids) {
			return ids[:n], true
		}
		ids = make([]uint32, n)
	}
}

func (server) Rand() uint64 { return importRand() }
