package server

import "github.com/prometheus/client_golang/prometheus"

// KVDisk is the state of the prompts that are kept on disk, of all models together. Counters count since the start and
// never go down.
type KVDisk struct {
	// Bytes and Blocks are there, Limit bytes may be.
	Bytes  int64 `json:"bytes"`
	Limit  int64 `json:"limit_bytes"`
	Blocks int64 `json:"blocks"`
	// Read and Written count blocks, Evicted those that were removed to make room, Dropped those that were not written
	// since the disk was behind. Damaged counts files that were not what was written, Errors what else went wrong.
	Read    int64 `json:"read_blocks"`
	Written int64 `json:"written_blocks"`
	Evicted int64 `json:"evicted_blocks"`
	Dropped int64 `json:"dropped_blocks"`
	Damaged int64 `json:"damaged_blocks"`
	Errors  int64 `json:"errors"`
}

// WatchKVDisk adds the metrics of prompts on disk, which read returns at each scrape. It is called at most once.
func (m *Metrics) WatchKVDisk(read func() KVDisk) {
	m.registry.MustRegister(kvDiskCollector{read})
}

// kvDiskCollector reads the metrics when it is asked for them.
type kvDiskCollector struct{ read func() KVDisk }

var (
	kvDiskBytes   = prometheus.NewDesc("tgi_kv_disk_bytes", "Bytes of the prompts that are kept on disk.", nil, nil)
	kvDiskLimit   = prometheus.NewDesc("tgi_kv_disk_limit_bytes", "Bytes that they may take.", nil, nil)
	kvDiskBlocks  = prometheus.NewDesc("tgi_kv_disk_blocks", "Blocks of prompts on disk.", nil, nil)
	kvDiskRead    = prometheus.NewDesc("tgi_kv_disk_read_blocks_total", "Blocks read instead of computed.", nil, nil)
	kvDiskWritten = prometheus.NewDesc("tgi_kv_disk_written_blocks_total", "Blocks written.", nil, nil)
	kvDiskEvicted = prometheus.NewDesc("tgi_kv_disk_evicted_blocks_total", "Blocks removed to make room.", nil, nil)
	kvDiskLost    = prometheus.NewDesc("tgi_kv_disk_lost_blocks_total",
		"Blocks that were not written (behind), or not what was written when they were read (damaged).",
		[]string{"reason"}, nil)
	kvDiskErrors = prometheus.NewDesc("tgi_kv_disk_errors_total", "Reads and writes of blocks that failed.", nil, nil)
)

// Describe implements prometheus.Collector.
func (kvDiskCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{kvDiskBytes, kvDiskLimit, kvDiskBlocks, kvDiskRead, kvDiskWritten,
		kvDiskEvicted, kvDiskLost, kvDiskErrors} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c kvDiskCollector) Collect(out chan<- prometheus.Metric) {
	m := c.read()
	put := func(d *prometheus.Desc, kind prometheus.ValueType, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, float64(n), labels...)
	}
	put(kvDiskBytes, prometheus.GaugeValue, m.Bytes)
	put(kvDiskLimit, prometheus.GaugeValue, m.Limit)
	put(kvDiskBlocks, prometheus.GaugeValue, m.Blocks)
	put(kvDiskRead, prometheus.CounterValue, m.Read)
	put(kvDiskWritten, prometheus.CounterValue, m.Written)
	put(kvDiskEvicted, prometheus.CounterValue, m.Evicted)
	put(kvDiskLost, prometheus.CounterValue, m.Dropped, "behind")
	put(kvDiskLost, prometheus.CounterValue, m.Damaged, "damaged")
	put(kvDiskErrors, prometheus.CounterValue, m.Errors)
}
