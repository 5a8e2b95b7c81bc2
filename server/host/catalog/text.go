package catalog

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tgi/models/hf"
	"tgi/models/library/lifecycle"
	"tgi/models/library/progress"
	"tgi/server/client/terminal"
	"tgi/server/share/index"
)

// WriteText writes what a model is for people.
func (r *Description) WriteText(w io.Writer) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", key, fmt.Sprintf(format, args...))
	}
	about := ""
	if r.Estimated {
		about = "about "
	}
	fmt.Fprintf(w, "%s: %s, %d layers of %d, %d heads over %d of %d, %d tokens, %d positions\n",
		r.ID, r.Architecture, r.Layers, r.Hidden, r.Heads, r.KVHeads, r.HeadDim, r.Vocabulary, r.Positions)
	if r.Parameters > 0 {
		fmt.Fprintf(w, "%s%s parameters, ", about, ParameterCount(r.Parameters))
	}
	fmt.Fprintf(w, "end-of-sequence ids %v, %d chat templates\n", r.EOS, len(r.Templates))
	line("folder", "%s", cmp.Or(r.Folder, PartOfProgram))
	if r.Task != "" {
		line("task", "%s, on the CPU", r.Task)
		line("pooling", "%s", strings.Join(r.Pooling, ", "))
	}
	if len(r.Labels) > 0 {
		line("labels", "%s", strings.Join(r.Labels, ", "))
	}
	if i := r.Weights; i != nil {
		line("files", "%d, %s together, %s", i.Files, progress.Bytes(i.Bytes),
			strings.Join(append([]string{string(i.Format)}, i.DTypes...), " "))
		for n, g := range i.Graphs {
			first := ""
			if n == 0 {
				first = ", taken unless --weights says otherwise"
			}
			line("graph", "%s: %s, %s%s", g.Weights, g.File, progress.Bytes(g.Bytes), first)
			for _, lack := range g.Lacks {
				line("", "%s", lack)
			}
		}
		line("memory", "%s", cmp.Or(i.choices(), "as the graph holds the weights"))
		if r.Task == "" {
			line("cache", "%s", i.cache(i.Context))
		}
		if i.CUDA != nil {
			line("on a GPU", "%s; cache %s", i.CUDA.choices(), i.CUDA.cache(i.Context))
		}
	}
	if r.Chat != "" {
		line("chat", "%s", r.Chat)
	}
	if len(r.Templates) > 0 {
		line("templates", "%s", strings.Join(r.Templates, ", "))
	}
	if !r.Tokenizer {
		line("tokenizer", "no %s: the model cannot be served without", hf.TokenizerFile)
	}
	if o := r.Origin; o != nil {
		source := o.Source
		if o.Revision != "" {
			source += " at revision " + o.Revision
		}
		line("origin", "%s, %s", source, o.Time.Local().Format(time.DateTime))
		for _, name := range slices.Sorted(maps.Keys(o.SHA256)) {
			line("sha256", "%s  %s", o.SHA256[name], name)
		}
	}
}

// choices writes the formats of the weights with their sizes.
func (m *Memory) choices() string {
	choices := make([]string, len(m.Choices))
	for i, c := range m.Choices {
		choices[i] = fmt.Sprintf("%s %s", c.Weights, progress.Bytes(c.Bytes))
	}
	return strings.Join(choices, ", ")
}

// cache writes the size of the KV cache.
func (m *Memory) cache(context int) string {
	text := fmt.Sprintf("%s for each token, %s for the whole context of %d", progress.Bytes(m.CachePerToken),
		progress.Bytes(m.CachePerToken*int64(context)), context)
	if m.CacheQuantised != m.CachePerToken {
		text += fmt.Sprintf("; %s for each token with int8 and int4", progress.Bytes(m.CacheQuantised))
	}
	return text
}

// WriteText writes what the check of a model found for people.
func (m *Checked) WriteText(w io.Writer) {
	if !m.Fetched {
		fmt.Fprintf(w, "model    %s, not fetched yet\n", m.ID)
		if m.Unsure != "" {
			fmt.Fprintf(w, "         whether its source has it is not known: %s\n", m.Unsure)
		}
		return
	}
	fmt.Fprintf(w, "model    %s, %s, %s weights\n", m.ID, m.Architecture, m.Weights)
	fmt.Fprintf(w, "runtime  %s\n", m.Backend)
	if m.Task != "" {
		fmt.Fprintf(w, "task     %s\n", m.Task)
		return
	}
	fmt.Fprintf(w, "chat     %s\n", m.Chat)
	fmt.Fprintf(w, "cache    %d blocks of %d tokens, %d bytes\n", m.Blocks, m.BlockTokens, m.CacheBytes)
	if d := m.KVDisk; d != nil {
		fmt.Fprintf(w, "kv_disk  %d blocks, %s of %s; blocks read %d, written %d, evicted %d, dropped %d, damaged %d; "+
			"errors %d\n", d.Blocks, progress.Bytes(d.Bytes), progress.Bytes(d.Limit), d.Read, d.Written, d.Evicted,
			d.Dropped, d.Damaged, d.Errors)
	}
	l := m.Limits
	fmt.Fprintf(w, "limits   max_input_tokens=%d max_total_tokens=%d max_batch_prefill_tokens=%d "+
		"max_batch_total_tokens=%d max_batch_size=%d max_concurrent_requests=%d\n",
		l.MaxInputTokens, l.MaxTotalTokens, l.MaxBatchPrefillTokens, l.MaxBatchTotalTokens,
		l.MaxBatchSize, l.MaxConcurrentRequests)
}

// WriteModels writes the table. What is wrong with a model stands below it.
func WriteModels(w io.Writer, folder string, list []Model) error {
	t := newTable(w)
	fmt.Fprintln(t, "ID\tSIZE\tPARAMETERS\tCONTEXT\tWEIGHTS\tSTATE\tFROM")
	for _, l := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, sizeCell(l), ParameterCount(l.Parameters), contextCell(l),
			weightsCell(l), stateCell(l), fromCell(l))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range list {
		if l.Error != "" {
			fmt.Fprintf(w, "%s\n", l.Error)
		}
	}
	_, err := fmt.Fprintf(w, "models folder: %s\n", folder)
	return err
}

func sizeCell(l Model) string {
	if l.Files == 0 {
		return "-"
	}
	return progress.Bytes(l.Bytes)
}

func contextCell(l Model) string {
	if l.Context == 0 {
		return "-"
	}
	return fmt.Sprint(l.Context)
}

func weightsCell(l Model) string {
	if l.Format == "" {
		return "-"
	}
	return strings.Join(append([]string{string(l.Format)}, l.DTypes...), " ")
}

func stateCell(l Model) string {
	state := string(l.State)
	if l.Partial > 0 {
		state += fmt.Sprintf(", %s are here", progress.Bytes(l.Partial))
	}
	if l.Default {
		state += ", default"
	}
	return state
}

// shownRevision is how much of a commit is shown, as git does.
const shownRevision = 12

func fromCell(l Model) string {
	switch {
	case l.Revision != "":
		return l.Source + "@" + l.Revision[:min(len(l.Revision), shownRevision)]
	case l.Source != "":
		return l.Source
	case l.Dir != "":
		return l.Dir
	case l.State == lifecycle.Downloaded:
		return "embedded"
	}
	return "-"
}

// WritePlugins writes the table, and below it where installed plugins are from, what else was pulled, and what is wrong
// with a plugin.
func WritePlugins(w io.Writer, list []Plugin, pulled []index.Entry) error {
	t := newTable(w)
	fmt.Fprintln(t, "NAME\tKINDS\tSIZE\tDECLARED BY\tSOURCE")
	for _, l := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Name, cmp.Or(strings.Join(l.Kinds, ", "), "none"),
			progress.Bytes(int64(l.Bytes)),
			cmp.Or(l.Declared, "-"), l.Source)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range list {
		if l.Reference != "" {
			fmt.Fprintf(w, "plugin %s: installed from %s\n", l.Name, terminal.Line(l.Reference))
		}
	}
	for _, e := range pulled {
		if !slices.ContainsFunc(list, func(l Plugin) bool { return e.Is(l.Reference) }) {
			fmt.Fprintf(w, "pulled, not installed here: %s\n", terminal.Line(e.Reference))
		}
	}
	for _, l := range list {
		if l.Error != "" {
			fmt.Fprintf(w, "plugin %s: %s\n", l.Name, terminal.Line(l.Error))
		}
	}
	return nil
}

// newTable returns a writer of columns that lie two spaces apart.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// ParameterCount writes a number of parameters for people.
func ParameterCount(n int64) string {
	switch {
	case n <= 0:
		return "-"
	case n < 1e6:
		return fmt.Sprintf("%.0fK", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fB", float64(n)/1e9)
}
