package doctor

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"tgi/runtime/ort"
	"tgi/server/config"
	"tgi/server/host/hardware"
)

// machine looks at the processors, the clock and the limits of the process.
func (d *diagnosis) machine(_ context.Context, r *report) {
	usable, all := ort.Threads(), runtime.NumCPU()
	if set := d.cfg.Runtime.Threads; set > usable {
		r.warn("cores", fmt.Sprintf("runtime.threads is %d, and the process may use %d of %d cores", set, usable, all),
			"leave runtime.threads out, or give the process more cores")
	} else {
		r.ok("cores", "%d of %d may be used", usable, all)
	}
	if year := time.Now().UTC().Year(); year < 2024 || year > 2100 {
		r.fail("clock", fmt.Errorf("the system says that it is the year %d", year),
			"set the clock: certificates, tokens and the times of replies depend on it")
	} else {
		r.ok("clock", "%s", time.Now().UTC().Format(time.RFC3339))
	}
	if have, ok := openFiles(); ok {
		need := uint64(d.cfg.Server.MaxConnections + filesBeside)
		if have < need {
			r.warn("open files", fmt.Sprintf("the limit is %d, and server.max_connections is %d", have,
				d.cfg.Server.MaxConnections), fmt.Sprintf("raise the limit to %d (ulimit -n, LimitNOFILE) or lower "+
				"server.max_connections", need))
		} else {
			r.ok("open files", "up to %d", have)
		}
	}
}

// filesBeside is how many files a server has open beside connections.
const filesBeside = 256

// device looks at what models compute on, and loads the library that they compute with.
func (d *diagnosis) device(_ context.Context, r *report) {
	rows, choice, err := hardware.Diagnose(d.cfg.Runtime.Device, d.cfg.Runtime.ORTLib)
	kind, _, _ := config.ParseDevice(d.cfg.Runtime.Device)
	for i, f := range rows {
		l := Line{f.What, OK, f.Found, ""}
		switch {
		case f.Bad && (kind == config.DeviceCUDA || i == len(rows)-1):
			l.Status, l.Cure = Fail, f.Cure
		case f.Bad && kind != config.DeviceCPU && f.Cure != "": // the CPU does: nothing is to be cured
			l.Found += " (" + f.Cure + ")"
		}
		r.lines = append(r.lines, l)
	}
	if err != nil {
		return
	}
	const cure = "a release has the ONNX Runtime library beside the program, the source tree fetches it by `make ort`; " +
		"or set runtime.ort_lib (--ort-lib) to its file"
	if err := ort.Init(choice.Library); err != nil {
		r.fail("ONNX Runtime", err, cure)
		return
	}
	d.choice, d.usable = choice, true
	r.ok("ONNX Runtime", "%s, %s", ort.Version(), choice.Library)
	r.ok("CPU kernels", "%s attention, %s products", ort.Attention(), ort.Product())
}
