package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kinds of devices that runtime.device names. A CUDA device may be named by its index: "cuda:1".
const (
	DeviceCPU  = "cpu"
	DeviceCUDA = "cuda"
)

// maxDevice bounds the index of a device.
const maxDevice = 1023

// ParseDevice splits a value of runtime.device into its kind, Auto, DeviceCPU or DeviceCUDA, and the index of a CUDA
// device, -1 for the first that can be used. Its error goes on from the name of the setting.
func ParseDevice(setting string) (kind string, index int, err error) {
	switch setting {
	case Auto, DeviceCPU, DeviceCUDA:
		return setting, -1, nil
	}
	number, ok := strings.CutPrefix(setting, DeviceCUDA+":")
	if n, err := strconv.Atoi(number); ok && err == nil && n >= 0 && n <= maxDevice && strconv.Itoa(n) == number {
		return DeviceCUDA, n, nil
	}
	return "", 0, fmt.Errorf("must be auto, cpu, cuda or cuda:N with N from 0 to %d, given %q", maxDevice, trim(setting))
}

// autoGraphs are the batch sizes that cuda_graphs = "auto" stands for.
var autoGraphs = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128}

// maxGraphRows bounds a batch size of runtime.cuda_graphs.
const maxGraphRows = 1024

// ParseGraphs returns the batch sizes that runtime.cuda_graphs lists, ascending, each once; none for "0". Its error
// goes on from the name of the setting.
func ParseGraphs(setting string) ([]int, error) {
	switch setting {
	case Auto:
		return slices.Clone(autoGraphs), nil
	case "0":
		return nil, nil
	}
	var sizes []int
	for part := range strings.SplitSeq(setting, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 || n > maxGraphRows {
			return nil, fmt.Errorf("must be auto, 0, or batch sizes from 1 to %d with commas between them, given %q",
				maxGraphRows, trim(setting))
		}
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}
