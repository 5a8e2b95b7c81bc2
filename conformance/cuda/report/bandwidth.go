package report

import (
	"fmt"
	"strings"

	"tgi/runtime/cuda"
)

// published are bandwidths of devices in bytes a second, by a part of their name: for those whose driver does not say.
var published = []struct {
	name  string
	bytes float64
}{
	{"H200", 4.8e12}, {"H100 NVL", 3.9e12}, {"H100 PCIe", 2.0e12}, {"H100", 3.35e12}, {"A100-SXM4-80GB", 2.04e12},
	{"A100", 1.55e12}, {"L40S", 0.864e12}, {"L4", 0.3e12}, {"A10", 0.6e12},
	{"RTX 4090", 1.01e12},
	{"RTX 3090", 0.936e12},
}

// bandwidth returns the bytes a second that a device's memory gives at most, and where the figure is from; 0 if nobody
// says.
func bandwidth(d cuda.Device) (bytes float64, from string) {
	if d.Bandwidth > 1e9 {
		return float64(d.Bandwidth), "by the clock and width of its memory as the driver tells them"
	}
	for _, p := range published {
		if strings.Contains(d.Name, p.name) {
			return p.bytes, fmt.Sprintf("as published for %s: the driver does not tell", p.name)
		}
	}
	return 0, "unknown: neither the driver nor the device's name tells"
}
