package check_test

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

// manifest is what the tests read of one.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		// Selector of a pool has matchLabels, that of a service is a map.
		Selector          map[string]any
		TargetPorts       []struct{ Number int }
		EndpointPickerRef struct {
			Name string
			Port struct{ Number int }
		}
		Ports []struct{ Port int }
		Rules []struct {
			BackendRefs []struct{ Group, Kind, Name string }
		}

		Template struct {
			Metadata struct{ Labels map[string]any }
			Spec     struct {
				ServiceAccountName string
				Containers         []struct {
					Image string
					Args  []string
					Ports []struct{ ContainerPort int }
					Env   []struct{ Name, Value string }
				}
				Volumes []struct{ ConfigMap struct{ Name string } }
			}
		}
	}
}

// manifests reads the documents of a file by their kinds.
func manifests(t *testing.T, text string) map[string]manifest {
	t.Helper()
	list := map[string]manifest{}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var m manifest
		if err := yaml.Unmarshal([]byte(part), &m); err != nil {
			t.Fatal(err)
		}
		if m.Kind != "" {
			list[m.Kind] = m
		}
	}
	return list
}

// TestPool: the pool, its route and the picker are what the CRDs and the picker take, and are about the chart's pods.
func TestPool(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "examples", "scale-out", "kubernetes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	check := schemas(t)
	for _, r := range check.Validate("kubernetes.yaml", io.NopCloser(strings.NewReader(string(text)))) {
		if sig, _ := r.Resource.Signature(); r.Status != validator.Valid {
			t.Errorf("%s: %v %v\n%s", sig.Kind, r.Err, r.ValidationErrors, r.Resource.Bytes)
		}
	}
	for _, change := range [][2]string{{"targetPorts", "targetPort"}, {"FailOpen", "Open"}, {"backendRefs", "backends"},
		{"request: 10m", "request: forever"}} {
		wrong := strings.Replace(string(text), change[0], change[1], 1)
		if !slices.ContainsFunc(check.Validate("a", io.NopCloser(strings.NewReader(wrong))), func(r validator.Result) bool {
			return r.Status == validator.Invalid
		}) {
			t.Errorf("%s for %s is not noticed", change[1], change[0])
		}
	}

	all := manifests(t, string(text))
	pool, route, service, picker := all["InferencePool"], all["HTTPRoute"], all["Service"], all["Deployment"]
	out, err := helm(t, "template", "tgi", path(t, "chart"), "--kube-version", kubernetesVersion)
	if err != nil {
		t.Fatal(out)
	}
	pods := manifests(t, out)["Deployment"].Spec.Template
	if s := pool.Spec.Selector["matchLabels"].(map[string]any); len(s) < 2 || !within(s, pods.Metadata.Labels) {
		t.Errorf("the pool selects %v, the pods of the chart have %v", s, pods.Metadata.Labels)
	}
	if p := pods.Spec.Containers[0].Ports[0].ContainerPort; len(pool.Spec.TargetPorts) != 1 ||
		pool.Spec.TargetPorts[0].Number != p {
		t.Errorf("the pool has the ports %v, the chart %d", pool.Spec.TargetPorts, p)
	}
	if b := route.Spec.Rules[0].BackendRefs[0]; b.Kind != pool.Kind || b.Name != pool.Metadata.Name {
		t.Errorf("the route leads to %v", b)
	}
	if r := pool.Spec.EndpointPickerRef; r.Name != service.Metadata.Name || r.Port.Number != service.Spec.Ports[0].Port {
		t.Errorf("the pool asks %v", r)
	}
	if labels := picker.Spec.Template.Metadata.Labels; !within(service.Spec.Selector, labels) {
		t.Errorf("the service selects %v, the picker has %v", service.Spec.Selector, labels)
	}
	if s := picker.Spec.Template.Spec; s.ServiceAccountName != all["ServiceAccount"].Metadata.Name ||
		s.Volumes[0].ConfigMap.Name != all["ConfigMap"].Metadata.Name {
		t.Errorf("the picker has the account %s and the settings %v", s.ServiceAccountName, s.Volumes)
	}

	source := module(t, extensionModule)
	c := picker.Spec.Template.Spec.Containers[0]
	if _, version, _ := strings.Cut(extensionModule, "@"); !strings.HasSuffix(c.Image, ":"+version) {
		t.Errorf("the image is %s, the schemas are those of %s", c.Image, extensionModule)
	}
	flags, err := os.ReadFile(filepath.Join(source, "pkg", "epp", "server", "options.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range c.Args {
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		if !strings.Contains(string(flags), `"`+name+`"`) {
			t.Errorf("the picker has no flag %s", name)
		}
	}
	types := regexp.MustCompile(`- type: (\S+)`).FindAllStringSubmatch(all["ConfigMap"].Data["picker.yaml"], -1)
	if len(types) != 3 {
		t.Errorf("%d plugins of the picker", len(types))
	}
	for _, one := range types {
		if !declared(t, filepath.Join(source, "pkg", "epp", "scheduling"), `Type = "`+one[1]+`"`) {
			t.Errorf("the picker has no plugin %s", one[1])
		}
	}
}

// within says whether all has every member of part.
func within(part, all map[string]any) bool {
	for name, v := range part {
		if all[name] != v {
			return false
		}
	}
	return true
}

// declared says whether a Go file below a folder has a text.
func declared(t *testing.T, folder, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(folder, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		b, err := os.ReadFile(file)
		found = found || strings.Contains(string(b), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
