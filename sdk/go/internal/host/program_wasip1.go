//go:build wasip1

package host

import "unsafe"

// CurrentProgram is the server.
var CurrentProgram Program = program{}

//go:wasmimport tgi ctx_fork
func importFork(c int32) int32

//go:wasmimport tgi ctx_drop
func importDrop(c int32) int32

//go:wasmimport tgi ctx_append
func importAppend(c int32, text unsafe.Pointer, n, flags uint32) int32

//go:wasmimport tgi ctx_push
func importPush(c int32, ids unsafe.Pointer, n uint32) int32

//go:wasmimport tgi ctx_len
func importLen(c int32) int32

//go:wasmimport tgi ctx_rewind
func importRewind(c, n int32) int32

//go:wasmimport tgi ctx_read
func importRead(c, from int32, what uint32, to unsafe.Pointer, room uint32) int32

//go:wasmimport tgi ctx_start
func importStart(c int32, settings unsafe.Pointer, n uint32) int32

//go:wasmimport tgi wait
func importWait(list unsafe.Pointer, n, flags uint32) int32

//go:wasmimport tgi span
func importSpan(c int32, to unsafe.Pointer) int32

//go:wasmimport tgi ctx_top
func importTop(c, k int32, to unsafe.Pointer) int32

//go:wasmimport tgi ctx_row
func importRow(c int32, to unsafe.Pointer) int32

//go:wasmimport tgi ctx_entropy
func importEntropy(c int32, to unsafe.Pointer) int32

//go:wasmimport tgi ctx_score
func importScore(c int32, ids unsafe.Pointer, n uint32, to unsafe.Pointer) int32

//go:wasmimport tgi ctx_ask
func importAsk(c int32, ids unsafe.Pointer, n uint32) int32

//go:wasmimport tgi emit
func importEmit(c, from, count int32) int32

//go:wasmimport tgi emit_text
func importEmitText(text unsafe.Pointer, n uint32) int32

//go:wasmimport tgi render
func importRender(request unsafe.Pointer, n uint32) int32

//go:wasmimport tgi grammar_prefix
func importGrammarPrefix(grammar unsafe.Pointer, n uint32, text unsafe.Pointer, m uint32) int32

//go:wasmimport tgi ctx_calls
func importCalls(c int32) int32

//go:wasmimport tgi why
func importWhy(to unsafe.Pointer, room uint32) int32

type program struct{}

func textOf(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

func listOf[T any](l []T) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(l)), uint32(len(l))
}

func (program) Fork(c int32) int32 { return importFork(c) }
func (program) Drop(c int32) int32 { return importDrop(c) }

func (program) Append(c int32, text string, flags uint32) int32 {
	at, n := textOf(text)
	return importAppend(c, at, n, flags)
}

func (program) Push(c int32, ids []uint32) int32 {
	at, n := listOf(ids)
	return importPush(c, at, n)
}

func (program) Len(c int32) int32       { return importLen(c) }
func (program) Rewind(c, n int32) int32 { return importRewind(c, n) }

// read reads twice: for the size, and then into a buffer of it.
func read[T any](c, from int32, what uint32) ([]T, int32) {
	n := importRead(c, from, what, nil, 0)
	if n <= 0 {
		return nil, n
	}
	buf := make([]T, n)
	at, room := listOf(buf)
	n = importRead(c, from, what, at, room)
	return buf[:max(n, 0)], n
}

func (program) ReadIDs(c, from int32) ([]uint32, int32) { return read[uint32](c, from, 0) }

func (program) ReadText(c, from int32) []byte {
	b, _ := read[byte](c, from, 1)
	return b
}

func (program) Start(c int32, settings string) int32 {
	at, n := textOf(settings)
	return importStart(c, at, n)
}

func (program) Wait(list []uint32, flags uint32) int32 {
	at, n := listOf(list)
	return importWait(at, n, flags)
}

func (program) Span(c int32) (s Span, n int32) {
	n = importSpan(c, unsafe.Pointer(&s))
	return s, n
}

func (program) Top(c, k int32) ([]Candidate, int32) {
	if k < 1 || k > 4096 {
		return nil, importTop(c, k, nil) // which refuses it
	}
	list := make([]Candidate, k)
	n := importTop(c, k, unsafe.Pointer(unsafe.SliceData(list)))
	return list[:max(n, 0)], n
}

func (program) Row(c int32) ([]float32, int32) {
	row := make([]float32, importVocabSize())
	n := importRow(c, unsafe.Pointer(unsafe.SliceData(row)))
	return row[:max(n, 0)], n
}

func (program) Entropy(c int32) (h float64, n int32) {
	n = importEntropy(c, unsafe.Pointer(&h))
	return h, n
}

func (program) Score(c int32, ids []uint32) ([]float32, int32) {
	list := make([]float32, len(ids))
	at, n := listOf(ids)
	status := importScore(c, at, n, unsafe.Pointer(unsafe.SliceData(list)))
	if status < 0 {
		return nil, status
	}
	return list, status
}

func (program) Ask(c int32, ids []uint32) int32 {
	at, n := listOf(ids)
	return importAsk(c, at, n)
}

func (program) Emit(c, from, count int32) int32 { return importEmit(c, from, count) }

func (program) EmitText(text string) int32 {
	at, n := textOf(text)
	return importEmitText(at, n)
}

func (program) Render(request string) int32 {
	at, n := textOf(request)
	return importRender(at, n)
}

func (program) GrammarPrefix(grammar, text string) int32 {
	g, n := textOf(grammar)
	t, m := textOf(text)
	return importGrammarPrefix(g, n, t, m)
}

func (program) Calls(c int32) int32 { return importCalls(c) }

func (program) Why() string {
	buf := make([]byte, max(importWhy(nil, 0), 0))
	at, room := listOf(buf)
	importWhy(at, room)
	return string(buf)
}
