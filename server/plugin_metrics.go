package server

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// WatchPlugins adds the metrics of plugins, which list returns at each scrape:
// names differ, counters never go down. It is called at most once.
func (m *Metrics) WatchPlugins(list func() []Plugin) {
	m.outline.MustRegister(pluginCollector{list, false})
	m.detail.MustRegister(pluginCollector{list, true})
}

// pluginCollector reads the metrics when it is asked for them, so that nothing
// counts twice and a plugin that is gone leaves none behind.
type pluginCollector struct {
	list func() []Plugin
	// work has it tell how much plugins had to do with texts: of a guard that says how nearly a text is what it looks
	// for.
	work bool
}

func describePlugin(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"plugin"}, labels...), nil)
}

var (
	pluginCalls   = describePlugin("tgi_plugin_calls_total", "Calls of a plugin's functions.")
	pluginSeconds = describePlugin("tgi_plugin_seconds_total", "Seconds that a plugin's functions ran.")
	pluginFuel    = describePlugin("tgi_plugin_fuel_total", "Fuel that a plugin's functions used.")
	pluginPaused  = describePlugin("tgi_plugin_paused_seconds_total",
		"Seconds that a plugin's functions were held up because others waited for tokens.")
	pluginSlices = describePlugin("tgi_plugin_slices_total",
		"Slices of fuel, between which a plugin's functions can be held up.")
	pluginFaults = describePlugin("tgi_plugin_faults_total", "Calls that failed, by kind.", "kind")
	pluginSkips  = describePlugin("tgi_plugin_skips_total", "Sequences that went on without a plugin that failed.")
	pluginResets = describePlugin("tgi_plugin_resets_total", "Instances made fresh for another sequence.")
	pluginLoads  = describePlugin("tgi_plugin_loads_total", "Versions loaded.")
	pluginOff    = describePlugin("tgi_plugin_off_clients",
		"Clients for which a plugin is switched off for a while, each because its own requests kept failing.")
	pluginInstances = describePlugin("tgi_plugin_instances", "Instances in use (out) and ready (waiting).", "state")
	pluginBytes     = describePlugin("tgi_plugin_instance_bytes",
		"Bytes that the instances take, by the pages that they touched.")
	guardVerdicts = describePlugin("tgi_guard_verdicts_total", "Verdicts of guards that were applied.", "verdict")
	guardHeld     = describePlugin("tgi_guard_held_tokens_total",
		"Tokens that guards were shown before they went out, each as often as it was shown.")
	guardRewound = describePlugin("tgi_guard_rewound_tokens_total", "Tokens that guards took back.")
	pluginInfo   = describePlugin("tgi_plugin_info", "Plugins; the value is always 1.", "version", "sha256", "state")
)

// Describe implements prometheus.Collector.
func (c pluginCollector) Describe(out chan<- *prometheus.Desc) {
	list := []*prometheus.Desc{pluginFaults, pluginSkips, pluginResets, pluginLoads, pluginOff, pluginInstances,
		pluginBytes, pluginInfo}
	if c.work {
		list = append(list, pluginCalls, pluginSeconds, pluginFuel, pluginPaused, pluginSlices, guardVerdicts,
			guardHeld, guardRewound)
	}
	for _, d := range list {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c pluginCollector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.list() {
		send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, kind, value, append([]string{p.Name}, labels...)...)
		}
		for kind, n := range p.Faults {
			send(pluginFaults, prometheus.CounterValue, float64(n), kind)
		}
		send(pluginSkips, prometheus.CounterValue, float64(p.Skips))
		send(pluginResets, prometheus.CounterValue, float64(p.Resets))
		send(pluginLoads, prometheus.CounterValue, float64(p.Loads))
		send(pluginOff, prometheus.GaugeValue, float64(p.OffClients))
		send(pluginInstances, prometheus.GaugeValue, float64(p.InstancesOut), "out")
		send(pluginInstances, prometheus.GaugeValue, float64(p.InstancesWaiting), "waiting")
		send(pluginBytes, prometheus.GaugeValue, float64(p.InstanceBytes))
		// The version is the guest's own word: whatever it says must be a label.
		send(pluginInfo, prometheus.GaugeValue, 1, strings.ToValidUTF8(p.Version, "\uFFFD"), p.SHA256, p.State)
		if !c.work {
			continue
		}
		send(pluginCalls, prometheus.CounterValue, float64(p.Calls))
		send(pluginSeconds, prometheus.CounterValue, p.Seconds)
		send(pluginFuel, prometheus.CounterValue, float64(p.Fuel))
		send(pluginPaused, prometheus.CounterValue, p.Paused)
		send(pluginSlices, prometheus.CounterValue, float64(p.Slices))
		if g := p.Guard; g != nil {
			for verdict, n := range g.Verdicts {
				send(guardVerdicts, prometheus.CounterValue, float64(n), verdict)
			}
			send(guardHeld, prometheus.CounterValue, float64(g.Held))
			send(guardRewound, prometheus.CounterValue, float64(g.Rewound))
		}
	}
}
