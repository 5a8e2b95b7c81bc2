package check_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

// Whose schemas manifests are held to. Kubernetes' module has the description of its API, the operator's its CRDs.
const (
	kubernetesVersion = "1.34.2"
	kubernetesModule  = "k8s.io/kubernetes@v" + kubernetesVersion
	operatorModule    = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	gatewayModule     = "sigs.k8s.io/gateway-api@v1.4.0"
	extensionModule   = "sigs.k8s.io/gateway-api-inference-extension@v1.3.0"
)

// helm runs helm on the chart.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return tool(t, append([]string{"go", "tool", "helm"}, args...)...)
}

// TestChart renders the chart with several sets of values and holds each manifest to Kubernetes' schemas, strictly.
func TestChart(t *testing.T) {
	sets, err := filepath.Glob(path(t, "chart", "ci", "*-values.yaml"))
	if err != nil || len(sets) < 6 {
		t.Fatalf("%d sets of values, %v", len(sets), err)
	}
	check := schemas(t)
	kinds := map[string]bool{}
	for _, set := range sets {
		name := strings.TrimSuffix(filepath.Base(set), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			if out, err := helm(t, "lint", "--strict", "-f", set, path(t, "chart")); err != nil {
				t.Fatal(out)
			}
			out, err := helm(t, "template", "release", path(t, "chart"), "-n", "models", "-f", set,
				"--kube-version", kubernetesVersion)
			if err != nil {
				t.Fatal(out)
			}
			for _, r := range check.Validate(name, io.NopCloser(strings.NewReader(out))) {
				sig, _ := r.Resource.Signature()
				if r.Status == validator.Empty {
					continue
				}
				if r.Status != validator.Valid {
					t.Errorf("%s %s: %v %v\n%s", sig.Kind, sig.Name, r.Err, r.ValidationErrors, r.Resource.Bytes)
					continue
				}
				kinds[sig.Kind] = true
			}
		})
	}
	for _, kind := range []string{"Deployment", "StatefulSet", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim",
		"HorizontalPodAutoscaler", "PodDisruptionBudget", "PodMonitor", "NetworkPolicy", "Ingress"} {
		if !kinds[kind] {
			t.Errorf("no set of values makes a %s", kind)
		}
	}
}

// TestSchemas: what is wrong is refused, so that a pass means something.
func TestSchemas(t *testing.T) {
	check := schemas(t)
	good := "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80, targetPort: http}]}\n"
	for text, want := range map[string]validator.Status{
		good:                                   validator.Valid,
		strings.Replace(good, "80", "http", 1): validator.Invalid,
		strings.Replace(good, "spec: {", "spec: {prts: 1,", 1): validator.Invalid,
		strings.Replace(good, "Service", "Servise", 1):         validator.Error,
	} {
		for _, r := range check.Validate("a", io.NopCloser(strings.NewReader(text))) {
			if r.Status != want {
				t.Errorf("status %v, want %v: %v\n%s", r.Status, want, r.Err, text)
			}
		}
	}
}

// TestValuesAreRefused: a name that does not exist, a value out of bounds, times that do not fit, and ports that two
// things want.
func TestValuesAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"replica=3":                   "additional properties 'replica' not allowed",
		"image.pullPolicy=Sometimes":  "pullPolicy",
		"replicas=-1":                 "replicas",
		"persistence.accessMode=Read": "accessMode",
		"drainSeconds=120":            "must be longer than drainSeconds",
		"kvEvents.port=80":            "port",
		"kvDisk.enabled=true,replicas=2,persistence.accessMode=ReadWriteMany":         "needs a volume for each replica",
		"kvDisk.enabled=true,replicas=2,persistence.existingClaim=a":                  "needs a volume for each replica",
		"kvDisk.enabled=true,persistence.enabled=false":                               "needs a volume for each replica",
		"metrics.podMonitor=true,metrics.authorizationKey=API_KEY":                    "needs a secret in auth",
		"kvEvents.enabled=true,kvEvents.port=3000":                                    "kvEvents.port and the port of requests are both 3000",
		"kvEvents.enabled=true,kvEvents.replayPort=3000":                              "kvEvents.replayPort and the port of requests are both 3000",
		"kvEvents.enabled=true,kvEvents.replayPort=5557":                              "kvEvents.replayPort and kvEvents.port are both 5557",
		"kvEvents.enabled=true,kvEvents.port=4000,config=[server]\nadmin_port = 4000": "kvEvents.port and server.admin_port",
	} {
		out, err := helm(t, "template", "release", path(t, "chart"), "--set", set, "--kube-version", kubernetesVersion)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("--set %s: %v, want an error with %q\n%s", set, err, want, out)
		}
	}
}

// TestChartEvents: the server takes the variables of the chart, the pod opens the ports that they name, and a network
// policy opens them to whom the values name alone.
func TestChartEvents(t *testing.T) {
	set := path(t, "chart", "ci", "events-values.yaml")
	out, err := helm(t, "template", "tgi", path(t, "chart"), "-f", set, "--kube-version", kubernetesVersion)
	if err != nil {
		t.Fatal(out)
	}
	pod := manifests(t, out)["StatefulSet"].Spec.Template.Spec.Containers[0]
	cmd := exec.CommandContext(t.Context(), program(t), "check", "--json")
	cmd.Dir, cmd.Env = t.TempDir(), os.Environ()
	for _, v := range pod.Env {
		value := strings.ReplaceAll(strings.Replace(v.Value, "$(POD_IP)", "10.1.2.3", 1), "/cache/", cmd.Dir+"/")
		cmd.Env = append(cmd.Env, v.Name+"="+value)
	}
	report, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	for _, want := range []string{`tcp://*:6557`, `tcp://*:6558`, `kv@10.1.2.3:3000@{model}`, cmd.Dir + "/prompts"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the server does not have %s:\n%s", want, report)
		}
	}
	if ports := fmt.Sprint(pod.Ports); ports != "[{3000} {6557} {6558}]" {
		t.Errorf("the pod opens %s", ports)
	}
	if !strings.Contains(out, "{port: kv-events, protocol: TCP}") {
		t.Error("the network policy lets nobody in")
	}
	out, err = helm(t, "template", "tgi", path(t, "chart"), "-f", set, "--set-json", "kvEvents.from=[]",
		"--kube-version", kubernetesVersion)
	if err != nil || strings.Contains(out, "port: kv-events") {
		t.Errorf("%v: without peers the network policy lets all in:\n%s", err, out)
	}
}

// TestChartConfig: the server accepts the settings of every set of values.
func TestChartConfig(t *testing.T) {
	sets, _ := filepath.Glob(path(t, "chart", "ci", "*-values.yaml"))
	for _, set := range append(sets, path(t, "chart", "values.yaml")) {
		text, err := os.ReadFile(set)
		if err != nil {
			t.Fatal(err)
		}
		var values struct{ Config string }
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		if values.Config == "" {
			continue
		}
		file := filepath.Join(t.TempDir(), "tgi.toml")
		write(t, file, values.Config)
		passes(t, program(t), "check", "--config", file, "--plugins-folder", t.TempDir(), "--api-key", "key")
	}
}

// schemas returns a validator of manifests. kubeconform's own schemas are fetched from a host; these are made of what
// the modules of Kubernetes and of those who extend it hold.
func schemas(t *testing.T) validator.Validator {
	t.Helper()
	folder := t.TempDir()
	var spec struct{ Definitions map[string]map[string]any }
	text, err := os.ReadFile(filepath.Join(module(t, kubernetesModule), "api", "openapi-spec", "swagger.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	for name, d := range spec.Definitions {
		strict(d)
		switch {
		case strings.HasSuffix(name, "intstr.IntOrString"):
			maps.Copy(d, map[string]any{"type": []string{"string", "integer"}})
		case strings.HasSuffix(name, "resource.Quantity"):
			maps.Copy(d, map[string]any{"type": []string{"string", "number"}})
		}
	}
	definitions, err := json.Marshal(spec.Definitions)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range spec.Definitions {
		of, _ := d["x-kubernetes-group-version-kind"].([]any)
		if len(of) != 1 {
			continue
		}
		gvk := of[0].(map[string]any)
		text := `{"$ref": "#/definitions/` + name + `", "definitions": ` + string(definitions) + `}`
		write(t, schemaFile(folder, gvk["group"].(string), gvk["version"].(string), gvk["kind"].(string)), text)
	}
	for _, crd := range [][]string{
		{operatorModule, "example", "prometheus-operator-crd", "monitoring.coreos.com_podmonitors.yaml"},
		{gatewayModule, "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml"},
		{extensionModule, "config", "crd", "bases", "inference.networking.k8s.io_inferencepools.yaml"},
	} {
		addCRD(t, folder, filepath.Join(append([]string{module(t, crd[0])}, crd[1:]...)...))
	}
	check, err := validator.New([]string{filepath.Join(folder, "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json")},
		validator.Opts{Strict: true, KubernetesVersion: kubernetesVersion})
	if err != nil {
		t.Fatal(err)
	}
	return check
}

// addCRD writes the schemas of a custom resource.
func addCRD(t *testing.T, folder, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	decode(t, string(text), &crd)
	for _, v := range crd.Spec.Versions {
		strict(v.Schema.OpenAPIV3Schema)
		v.Schema.OpenAPIV3Schema["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"}
		text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		write(t, schemaFile(folder, crd.Spec.Group, v.Name, crd.Spec.Names.Kind), string(text))
	}
}

// schemaFile is where the schema of a kind lies; kubeconform knows it by its kind in small letters.
func schemaFile(folder, group, version, kind string) string {
	if group == "" {
		group = version // as kubeconform calls the first group
	}
	return filepath.Join(folder, group+"_"+version+"_"+strings.ToLower(kind)+".json")
}

// strict makes every object of a schema refuse members that it does not name.
func strict(schema map[string]any) {
	if _, open := schema["additionalProperties"]; !open && schema["x-kubernetes-preserve-unknown-fields"] == nil &&
		schema["properties"] != nil {
		schema["additionalProperties"] = false
	}
	if schema["x-kubernetes-int-or-string"] == true {
		schema["type"] = []string{"string", "integer"}
	}
	for _, v := range schema {
		switch v := v.(type) {
		case map[string]any:
			strict(v)
			for _, v := range v {
				if v, ok := v.(map[string]any); ok {
					strict(v)
				}
			}
		}
	}
}

// TestAdapter: the rule for Prometheus's adapter reads a gauge that the server has, and serves what the chart scales by.
func TestAdapter(t *testing.T) {
	var values struct {
		Rules struct {
			Custom []struct {
				SeriesQuery, MetricsQuery string
				Name                      struct{ As string }
			}
		}
	}
	decode(t, read(t, "prometheus", "adapter.yaml"), &values)
	if len(values.Rules.Custom) != 1 {
		t.Fatalf("%d rules", len(values.Rules.Custom))
	}
	rule := values.Rules.Custom[0]
	metric, _, _ := strings.Cut(rule.SeriesQuery, "{")
	if !strings.Contains(string(get(t, serve(t)+"/metrics")), "\n"+metric+" ") {
		t.Errorf("the server has no %s", metric)
	}
	query := strings.NewReplacer("<<.Series>>", metric, "<<.LabelMatchers>>", `namespace="a",pod=~"b|c"`, "<<.GroupBy>>", "pod").
		Replace(rule.MetricsQuery)
	for _, text := range []string{rule.SeriesQuery, query} {
		if _, err := parser.ParseExpr(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	out, err := helm(t, "template", "tgi", path(t, "chart"), "-f", path(t, "chart", "ci", "autoscale-values.yaml"),
		"--kube-version", kubernetesVersion)
	if err != nil || !strings.Contains(out, "metric: {name: "+rule.Name.As+"}") {
		t.Errorf("%v: the chart does not scale by %s", err, rule.Name.As)
	}
}
