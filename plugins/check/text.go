package check

import (
	"fmt"
	"io"
	"strings"

	kit "tgi/conformance/guest"
	"tgi/sdk"
	"tgi/sdk/abi"
)

// TextOptions say what a report's text shows beside the report.
type TextOptions struct {
	File   string
	Limits Limits
	// Language is that of the source, "" where only the module is known.
	Language string
	// ParamsGiven says that the module was tried with other parameters than {}.
	ParamsGiven bool
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer, o TextOptions) {
	if r.Sound() {
		r.writeSummary(w, o)
		return
	}
	r.writeViolations(w, o)
}

// writeSummary writes what a sound module is.
func (r *Report) writeSummary(w io.Writer, o TextOptions) {
	s := r.Summary
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-8s  %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "%s: sound\n", o.File)
	line("name", "%s", strings.TrimSpace(s.Name+" "+s.Version))
	if s.Doc != "" {
		line("doc", "%s", s.Doc)
	}
	line("kinds", "%s", orNone(s.Kinds))
	line("modes", "%s", orNone(s.Modes))
	line("needs", "%s", orNone(needs(s)))
	if g := s.Guard; g != nil {
		line("guard", "%s", guardText(g))
	}
	line("size", "%d bytes", r.Bytes)
	line("sha256", "%s", r.SHA256)
	if s.Memory > 0 {
		line("memory", "%s of an instance, limit %s", sizeText(s.Memory), sizeText(int(o.Limits.Memory)))
	}
	line("exports", "%s", orNone(names(s.Exports)))
	line("imports", "%s", orNone(names(s.Imports)))
	if len(s.Params) > 0 {
		line("params", "%s", s.Params)
	}
	if len(s.Untried) > 0 {
		line("untried", "no source was given in %s: no text was held to it (--language and --source give one)",
			strings.Join(s.Untried, ", "))
	}
	for _, t := range r.States {
		line("state", "%s", stateText(t))
	}
	line("checked", "%d rules with %s", len(Rules()), counted(s.Cases, "set of parameters", "sets of parameters"))
}

// guardText says what a guard declares.
func guardText(g *Guarding) string {
	asked := "behind each token"
	if g.Every > 1 {
		asked = fmt.Sprintf("behind each %d tokens", g.Every)
	}
	return fmt.Sprintf("declares the verdicts %s; holds back %s at most, asked %s",
		orNone(append([]string{"release"}, g.Verdicts...)), counted(g.Hold, "token", "tokens"), asked)
}

// stateText says how a guest's word on its state was tried, and what was not tried. It quotes few parameters.
func stateText(t kit.StateTrial) string {
	const most = 3
	list := func(what string, texts []string) string {
		if len(texts) == 0 {
			return ""
		}
		more := ""
		if n := len(texts) - most; n > 0 {
			more, texts = fmt.Sprintf(" and %d more", n), texts[:most]
		}
		return "; " + what + ": " + strings.Join(texts, ", ") + more
	}
	text := fmt.Sprintf("%q of kind %s was tried, not proven: taken back within %d tokens, with %s", t.State, t.Kind,
		t.Positions, counted(len(t.Params), "set of parameters", "sets of parameters"))
	text += list("it ended early with", t.Short) + list("the plugin refuses", t.Refused)
	if t.Untried > 0 {
		text += fmt.Sprintf("; there was no time for %s", counted(t.Untried, "further set", "further sets"))
	}
	return text
}

// needs lists what a guest looks at, in words.
func needs(s *Summary) (list []string) {
	if s.TopK > 0 {
		list = append(list, fmt.Sprintf("the %d most likely tokens", s.TopK))
	}
	if s.Row {
		list = append(list, "all logits")
	}
	if s.Candidates > 0 {
		list = append(list, fmt.Sprintf("up to %d candidates", s.Candidates))
	}
	return list
}

// names drops signatures, and counts the imports of WASI where they stood.
func names(funcs []string) (list []string) {
	stub := 0
	for _, f := range funcs {
		name, _, _ := strings.Cut(f, "(")
		if strings.HasPrefix(name, abi.WASIModule+".") {
			stub++
		} else {
			list = append(list, name)
		}
	}
	if stub > 0 {
		list = append(list, fmt.Sprintf("%d of %s", stub, abi.WASIModule))
	}
	return list
}

// orNone joins a list.
func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

// writeViolations writes what is wrong with a module.
func (r *Report) writeViolations(w io.Writer, o TextOptions) {
	fmt.Fprintf(w, "%s: %s (%d bytes, sha256 %s)\n", o.File,
		counted(len(r.Violations), "violation", "violations"), r.Bytes, r.SHA256)
	refused := false
	for _, v := range r.Violations {
		fmt.Fprintf(w, "  %s: %s\n      wanted: %s (%s)\n", v.Rule, v.Found, v.Text, v.Source)
		if v.Params != "" {
			fmt.Fprintf(w, "      with config %s and parameters %s\n", v.Config, v.Params)
		}
		switch v.Rule {
		case "registered":
			writeRemedy(w, o.Language, sdk.Registration)
		case "describe":
			writeRemedy(w, o.Language, sdk.Description)
		}
		refused = refused || v.Rule == "validate" && v.Params == "{}"
	}
	if refused && !o.ParamsGiven {
		fmt.Fprintln(w, "It refuses {}: give parameters that it accepts by --params, and {} by --refuse.")
	}
}

// writeRemedy says what to write, in one language or, for "", in each.
func writeRemedy(w io.Writer, language string, in func(language string) string) {
	if language != "" {
		fmt.Fprintf(w, "      %s\n", in(language))
		return
	}
	for _, l := range sdk.Languages {
		fmt.Fprintf(w, "      %-5s %s\n", l+":", in(l))
	}
}

// counted writes a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
