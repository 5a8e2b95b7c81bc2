//go:build !amd64

package logits

// vectorSkip and vectorUsable do nothing on this processor.
func vectorSkip([]float32, float32) int { return 0 }

func vectorUsable([]float32) int { return 0 }
