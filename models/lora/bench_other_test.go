//go:build !unix

package lora_test

import "testing"

// processorTime is not measured here.
func processorTime(testing.TB) float64 { return 1 }
