package report

import (
	"slices"

	"tgi/models"
	"tgi/runtime/cuda"
)

// kept is how much of the device's memory may be missing after models were opened and closed: what CUDA and ONNX
// Runtime keep for the process.
const kept = 64 << 20

// memory opens and closes a model again and again.
func (r *report) memory() error {
	if len(r.o.Checkpoints) == 0 || r.o.Opens == 0 {
		return nil
	}
	built, err := r.build(r.o.Checkpoints[0], models.CUDA, r.o.Formats[0])
	if err != nil {
		return err
	}
	var free []int64
	for i := range r.o.Opens {
		if r.over("memory", "opens after the %dth", i) {
			break
		}
		m, err := r.onDevice(built, 8, 64, 4, []int{4})
		if err != nil {
			return err
		}
		m.Close()
		left, _, err := cuda.MemInfo(r.o.Device.Index)
		if err != nil {
			return err
		}
		free = append(free, left)
	}
	if len(free) == 0 {
		return nil
	}
	lost := free[0] - slices.Min(free)
	r.line("After %d opens and closes %d MiB of the device are not back: %s", len(free), lost>>20,
		r.holds(lost <= kept, "%d MiB lost over %d opens", lost>>20, len(free)))
	return nil
}
