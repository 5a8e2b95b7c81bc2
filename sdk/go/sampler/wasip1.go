//go:build wasip1

package sampler

import (
	"unsafe"

	"tgi/sdk/go/internal/result"
	"tgi/sdk/go/plugin"
)

//go:wasmexport tgi_sampler_begin
func exportBegin(params unsafe.Pointer, n uint32, prompt unsafe.Pointer, count uint32) uint64 {
	return result.Failure(begin(unsafe.Slice((*byte)(params), n), unsafe.Slice((*uint32)(prompt), count)))
}

//go:wasmexport tgi_sampler_sample
func exportSample(candidates unsafe.Pointer, n uint32) int32 {
	i, err := sampler.Sample(unsafe.Slice((*Candidate)(candidates), n))
	if err != nil {
		plugin.Error(result.Text(err))
		return -1
	}
	return int32(i)
}
