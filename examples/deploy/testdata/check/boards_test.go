package check_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// queries are PromQL, by where each stands.
type queries map[string]string

// alerts returns the expressions of the alerts.
func alerts(t *testing.T) queries {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	decode(t, read(t, "prometheus", "alerts.yml"), &rules)
	q := queries{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			q[r.Alert] = r.Expr
		}
	}
	if len(q) < 10 {
		t.Fatalf("%d alerts", len(q))
	}
	return q
}

// panel is what is read of a board's panel. A row may hold panels.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
	Panels  []panel
}

// board returns the expressions of a board, its variables replaced by what they hold.
func board(t *testing.T, text string, variables ...string) queries {
	t.Helper()
	var b struct {
		Panels     []panel
		Templating struct {
			List []struct{ Definition string }
		}
	}
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		t.Fatal(err)
	}
	q := queries{}
	replace := strings.NewReplacer(variables...)
	var walk func(under string, panels []panel)
	walk = func(under string, panels []panel) {
		for _, p := range panels {
			for i, target := range p.Targets {
				if target.Expr != "" {
					q[under+p.Title+" "+string(rune('A'+i))] = replace.Replace(target.Expr)
				}
			}
			walk(p.Title+": ", p.Panels)
		}
	}
	walk("", b.Panels)
	for _, v := range b.Templating.List {
		if rest, ok := strings.CutPrefix(v.Definition, "label_values("); ok {
			series, _, _ := strings.Cut(rest, ",")
			q["variable "+v.Definition] = replace.Replace(series)
		}
	}
	return q
}

// exported returns the metrics of a server by the names of their series, each with the names of its labels.
func exported(t *testing.T, text []byte) map[string][]string {
	t.Helper()
	lines := expfmt.NewTextParser(model.LegacyValidation)
	families, err := lines.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{"up": nil}
	for name, f := range families {
		var of []string
		for _, m := range f.Metric {
			for _, l := range m.Label {
				of = append(of, l.GetName())
			}
		}
		switch f.GetType() {
		case dto.MetricType_HISTOGRAM:
			all[name+"_sum"], all[name+"_count"] = of, of
			all[name+"_bucket"] = append(of, model.BucketLabel)
		case dto.MetricType_SUMMARY:
			all[name+"_sum"], all[name+"_count"] = of, of
		default:
			all[name] = of
		}
	}
	return all
}

// targets are the labels that Prometheus adds to what it reads.
var targets = []string{"job", "instance", "container", "pod", "namespace"}

// TestQueries: every expression of the boards and alerts is PromQL, and names only series and labels that a server has
// which answered requests. TGI's board is the file that TGI published.
func TestQueries(t *testing.T) {
	server := serve(t, "--admin-key", "boss")
	busy(t, server)
	trial(t, server)
	series := exported(t, get(t, server+"/metrics"))
	for name, q := range map[string]queries{"alerts": alerts(t), "tgi's board": ourBoard(t), "TGI's board": theirBoard(t)} {
		t.Logf("%s: %d expressions", name, len(q))
		for at, expr := range q {
			for _, wrong := range unknown(t, expr, series) {
				t.Errorf("%s, %s: %s in %s", name, at, wrong, expr)
			}
		}
	}
	for expr, want := range map[string]string{
		"sum(rate(tgi_request_cuont[1m]))":    "no series tgi_request_cuont",
		`tgi_queue_size{metod="decode"}`:      "no label metod",
		`sum by (reasn) (tgi_batch_concat)`:   "no label reasn",
		"sum(rate(tgi_request_count[1m])":     "unclosed left parenthesis",
		`{__name__=~"tgi_.*"}`:                "no name",
		`tgi_request_skipped_tokens_bucket`:   "",
		`a / on (instance) tgi_request_count`: "no series a",
	} {
		if got := strings.Join(unknown(t, expr, series), "; "); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// unknown says what of an expression a server does not have.
func unknown(t *testing.T, expr string, series map[string][]string) (wrong []string) {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var have []string // labels of what the expression reads
	for _, matchers := range parser.ExtractSelectors(parsed) {
		at := slices.IndexFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labels.MetricName })
		if at < 0 || matchers[at].Type != labels.MatchEqual {
			wrong = append(wrong, "no name")
			continue
		}
		of, ok := series[matchers[at].Value]
		if !ok {
			wrong = append(wrong, "no series "+matchers[at].Value)
			continue
		}
		have = append(have, of...)
		for _, m := range matchers {
			if m.Name != labels.MetricName && !slices.Contains(of, m.Name) && !slices.Contains(targets, m.Name) {
				wrong = append(wrong, "no label "+m.Name)
			}
		}
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		a, ok := n.(*parser.AggregateExpr)
		if !ok || len(wrong) > 0 {
			return nil
		}
		for _, l := range a.Grouping {
			if !slices.Contains(have, l) && !slices.Contains(targets, l) {
				wrong = append(wrong, "no label "+l)
			}
		}
		return nil
	})
	return wrong
}

// ourBoard and theirBoard return the expressions of the boards with values for their variables.
func ourBoard(t *testing.T) queries {
	t.Helper()
	return board(t, read(t, "grafana", "boards", "tgi.json"), "$__rate_interval", "5m", "$__range", "1h", "$instance", ".*",
		"$job", ".*")
}

func theirBoard(t *testing.T) queries {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "tgi_grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	q := board(t, string(text), "$service", "tgi")
	if len(q) < 50 {
		t.Fatalf("TGI's board has %d expressions", len(q))
	}
	return q
}
