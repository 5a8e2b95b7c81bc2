package vision

// Scaling returns the means and deviations of a processor, times 255.
func Scaling(p Processor) (mean, std [3]float32) {
	switch p := p.(type) {
	case *idefics3:
		return p.mean, p.std
	case *llava:
		return p.mean, p.std
	case *gemma3:
		return p.mean, p.std
	case *qwen:
		return p.mean, p.std
	}
	panic("another processor")
}
