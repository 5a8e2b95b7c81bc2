package tgi

import (
	"strconv"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/wire"
)

// appendInfo writes what /info says of the server and a model, and leaves the object
// open. Empty strings become null where TGI has null. Where the router's limits
// belong to it, they are those of every version of TGI that clients read.
func appendInfo(b []byte, m *dispatch.Model, version string, d *dialect.Dialect) []byte {
	l := &m.Limits
	b = wire.AppendString(append(b, `{"model_id":`...), m.ID)
	b = appendNullable(append(b, `,"model_sha":`...), m.Revision)
	b = appendNullable(append(b, `,"model_dtype":`...), m.DType)
	b = wire.AppendString(append(b, `,"model_device_type":`...), m.Device)
	if m.GPU != nil { // which TGI does not tell
		b = appendGPU(append(b, `,"device":`...), m.GPU)
	}
	b = append(b, `,"model_pipeline_tag":"text-generation"`...)
	if d.InfoLimits {
		b = append(appendLimits(b, l), `,"router":"text-generation-router"`...)
	}
	b = wire.AppendString(append(b, `,"version":`...), version)
	b = append(b, `,"sha":null`...)
	if d.InfoLimits {
		b = append(b, `,"docker_label":null`...)
		if m.Speculate > 0 { // TGI does not tell
			b = appendInt(b, "speculate", m.Speculate)
		}
		if m.KVDisk != nil {
			b = appendKVDisk(append(b, `,"kv_disk":`...), m.KVDisk())
		}
	}
	return b
}

// appendGPU writes what a model runs on.
func appendGPU(b []byte, g *dispatch.GPU) []byte {
	b = wire.AppendString(append(b, `{"name":`...), g.Name)
	b = appendInt(b, "index", g.Index)
	b = appendInt(b, "memory_bytes", int(g.Memory))
	b = appendInt(b, "cache_bytes", int(g.Cache))
	b = appendList(append(b, `,"cuda_graphs":`...), g.Graphs, appendNumber)
	return append(b, '}')
}

// appendKVDisk writes what is kept of prompts on disk. The counters are for administrators: they tell what others ask.
func appendKVDisk(b []byte, d server.KVDisk) []byte {
	b = append(append(b, `{"bytes":`...), strconv.FormatInt(d.Bytes, 10)...)
	b = appendInt(b, "limit_bytes", int(d.Limit))
	return append(appendInt(b, "blocks", int(d.Blocks)), '}')
}

func appendNumber(b []byte, n *int) []byte { return strconv.AppendInt(b, int64(*n), 10) }

// appendLimits writes the router's limits.
func appendLimits(b []byte, l *config.Limits) []byte {
	b = appendInt(b, "max_concurrent_requests", l.MaxConcurrentRequests)
	b = appendInt(b, "max_best_of", l.MaxBestOf)
	b = appendInt(b, "max_stop_sequences", l.MaxStopSequences)
	b = appendInt(b, "max_input_tokens", l.MaxInputTokens)
	b = appendInt(b, "max_total_tokens", l.MaxTotalTokens)
	b = wire.AppendFloat32(append(b, `,"waiting_served_ratio":`...), float32(l.WaitingServedRatio))
	b = appendInt(b, "max_batch_total_tokens", l.MaxBatchTotalTokens)
	b = appendInt(b, "max_waiting_tokens", l.MaxWaitingTokens)
	b = appendInt(b, "max_batch_size", l.MaxBatchSize)
	b = appendInt(b, "validation_workers", l.ValidationWorkers)
	return appendInt(b, "max_client_batch_size", l.MaxClientBatchSize)
}

// appendPlugin writes what everybody may know of a plugin.
func appendPlugin(b []byte, p *server.Plugin) []byte {
	b = wire.AppendString(append(b, `{"name":`...), p.Name)
	b = wire.AppendString(append(b, `,"version":`...), p.Version)
	b = wire.AppendString(append(b, `,"sha256":`...), p.SHA256)
	b = wire.AppendString(append(b, `,"state":`...), p.State)
	if p.Error != "" {
		b = wire.AppendString(append(b, `,"error":`...), p.Error)
	}
	b = appendList(append(b, `,"kinds":`...), p.Kinds, appendName)
	if len(p.Languages) > 0 {
		b = appendList(append(b, `,"languages":`...), p.Languages, appendName)
	}
	b = wire.AppendString(append(b, `,"apply":`...), p.Apply)
	if p.Reserved {
		b = append(b, `,"nameable":false`...)
	}
	if len(p.Params) > 0 {
		b = append(append(b, `,"params":`...), p.Params...)
	}
	return append(b, '}')
}

func appendName(b []byte, name *string) []byte { return wire.AppendString(b, *name) }

func appendInt(b []byte, name string, n int) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, int64(n), 10)
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return wire.AppendString(b, s)
}
