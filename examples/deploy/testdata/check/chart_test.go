package check_test

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

// Whose schemas manifests are held to. Kubernetes' module has the description of its API, the operator's its CRDs.
const (
	kubernetesVersion = "1.34.2"
	kubernetesModule  = "k8s.io/kubernetes@v" + kubernetesVersion
	operatorModule    = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
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

// TestValuesAreRefused: a name that does not exist, a value out of bounds, and times that do not fit.
func TestValuesAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"replica=3":                   "additional properties 'replica' not allowed",
		"image.pullPolicy=Sometimes":  "pullPolicy",
		"replicas=-1":                 "replicas",
		"persistence.accessMode=Read": "accessMode",
		"drainSeconds=120":            "must be longer than drainSeconds",
		"metrics.podMonitor=true,metrics.authorizationKey=API_KEY": "needs a secret in auth",
	} {
		out, err := helm(t, "template", "release", path(t, "chart"), "--set", set, "--kube-version", kubernetesVersion)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("--set %s: %v, want an error with %q\n%s", set, err, want, out)
		}
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
// the modules of Kubernetes and of the Prometheus operator hold.
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
	crd, err := os.ReadFile(filepath.Join(module(t, operatorModule), "example", "prometheus-operator-crd",
		"monitoring.coreos.com_podmonitors.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var monitor struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(crd, &monitor); err != nil {
		t.Fatal(err)
	}
	for _, v := range monitor.Spec.Versions {
		strict(v.Schema.OpenAPIV3Schema)
		v.Schema.OpenAPIV3Schema["properties"].(map[string]any)["metadata"] = map[string]any{"type": "object"}
		text, err := json.Marshal(v.Schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		write(t, schemaFile(folder, monitor.Spec.Group, v.Name, monitor.Spec.Names.Kind), string(text))
	}
	check, err := validator.New([]string{filepath.Join(folder, "{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json")},
		validator.Opts{Strict: true, KubernetesVersion: kubernetesVersion})
	if err != nil {
		t.Fatal(err)
	}
	return check
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
