package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestKVDiskMetrics(t *testing.T) {
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(kvDiskCollector{func() KVDisk {
		return KVDisk{Bytes: 1, Limit: 2, Blocks: 3, Read: 4, Written: 5, Evicted: 6, Dropped: 7, Damaged: 8,
			Errors: 9}
	}})
	families, err := all.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"bytes": 1, "limit_bytes": 2, "blocks": 3, "read_blocks_total": 4,
		"written_blocks_total": 5, "evicted_blocks_total": 6, "lost_blocks_total": 15, "errors_total": 9} {
		if got["tgi_kv_disk_"+name] != want {
			t.Errorf("tgi_kv_disk_%s is %v, want %v", name, got["tgi_kv_disk_"+name], want)
		}
	}
}
