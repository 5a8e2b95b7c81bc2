//go:build !amd64

package logits

// vectorSkip and vectorUsable look at nothing on this processor.
func vectorSkip([]float32, float32) int { return 0 }

func vectorUsable([]float32) int { return 0 }
