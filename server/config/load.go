package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"tgi/runtime/regular"
)

// DefaultFile is read from the working folder when it is there and no other
// file is named.
const DefaultFile = "tgi.toml"

// MaxFile bounds the settings' file and each text that it names, such as a template or a certificate, in bytes.
const MaxFile = 16 << 20

// Loaded is what Read found.
type Loaded struct {
	Config Config
	// Notices are what was asked for and has no effect, or probably another one than was meant.
	Notices []Notice
	// origins say where values come from, by key; a key that is not there has
	// its default. Those of a list of tables are by index, as in key[0].name.
	origins map[string]string
	// said are the texts of the file, for errors that repeat them.
	said []string
}

// Read returns the settings that flags, the file and the environment ask for,
// validated. lookup is os.LookupEnv or a stand-in; variables that are set but
// empty count as not set. The zero Flags, or nil, stand for no flags. Errors and
// notices show values as Shown does.
func Read(flags *Flags, lookup func(string) (string, bool)) (Loaded, error) {
	if flags == nil {
		flags = &Flags{}
	}
	said := slices.Collect(maps.Values(flags.given))
	l := Loaded{Config: Default(), origins: map[string]string{}}
	err := l.read(flags, func(name string) (string, bool) {
		value, ok := lookup(name)
		said = append(said, value)
		return value, ok && value != ""
	})
	said = append(said, l.said...)
	for i := range l.Notices {
		l.Notices[i].Why = concealAll(l.Notices[i].Why, said)
	}
	return l, Conceal(err, said...)
}

// read is Read; present is lookup without what is empty.
func (l *Loaded) read(flags *Flags, present func(string) (string, bool)) error {
	given := flags.given
	if err := l.readFile(flags, present); err != nil {
		return err
	}
	if err := clash(given, present); err != nil {
		return err
	}
	for i := range settings {
		if err := l.set(&settings[i], given, present); err != nil {
			return err
		}
	}
	l.sageMaker()
	l.hubModel()
	l.launcher(given, present)
	if err := l.Config.Validate(); err != nil {
		return l.Placed(err)
	}
	l.Config.findAdapters()
	l.doubts()
	return nil
}

// set sets a setting to the value of its flag, or else of its environment variable.
func (l *Loaded) set(s *setting, given map[string]string, present func(string) (string, bool)) error {
	value, name, origin := "", "", ""
	for _, other := range llmInference[s.flag] {
		if v, ok := present(other); ok && !service(v) {
			value, name, origin = v, other, "env "+other
		}
	}
	if v, ok := present(env(s.flag)); ok && !foreign(s.flag, v) {
		value, name, origin = v, env(s.flag), "env "+env(s.flag)
	}
	for _, other := range s.also {
		if v, ok := present(other); ok {
			value, name, origin = v, other, "env "+other
		}
	}
	if v, ok := given[s.flag]; ok {
		value, name, origin = v, "--"+s.flag, "flag --"+s.flag
	}
	if name == "" {
		return nil
	}
	if n := len(l.Config.ModelList); n > 0 && strings.HasPrefix(s.key, "model.") {
		return fmt.Errorf("%s sets %s, which is about one model: %s declares %d by [[model]], set it there", name,
			s.key, cmp.Or(l.Config.File, "the "+stdinName), n)
	}
	if err := assign(s.at(&l.Config), value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	l.origins[s.key] = origin
	l.Config.given(s.key, name)
	return nil
}

// foreign reports whether an environment variable was set by another program:
// container engines and shells set HOSTNAME to the machine's name, which is no
// address to listen on (TGI passes over it too), and Kubernetes sets ADMIN_PORT
// to a URL for a service that is called admin.
func foreign(flag, value string) bool {
	return flag == "hostname" && net.ParseIP(value) == nil || strings.HasSuffix(flag, "port") && service(value)
}

// service reports whether Kubernetes set a variable, to the URL of a service.
func service(value string) bool { return strings.Contains(value, "://") }

// clash refuses both names of max_input_tokens at once, as TGI's launcher does.
func clash(given map[string]string, present func(string) (string, bool)) error {
	both := func(find func(flag string) (string, bool)) error {
		a, ok := find("max-input-tokens")
		b, too := find(legacyInput)
		if ok && too {
			return fmt.Errorf("both `max_input_tokens` (%s) and `max_input_length` (%s) are set; give `max_input_tokens` alone, the other is its older name", a, b)
		}
		return nil
	}
	return both(func(flag string) (string, bool) {
		if v, ok := given[flag]; ok {
			return v, true
		}
		return present(env(flag))
	})
}

// sageMakerPort is where SageMaker sends requests when it names no port.
const sageMakerPort = 8080

// sageMaker listens where SageMaker expects it, as the entry point of TGI's
// image there does: HF_MODEL_ID is how that names the model.
func (l *Loaded) sageMaker() {
	const named = "env HF_MODEL_ID"
	if l.origins["model.path"] == named && l.origins["server.port"] == "" {
		l.Config.Server.Port = sageMakerPort
		l.origins["server.port"] = named
	}
}

// hubModel takes the model that a flag or the environment names for a repository of
// the hub where there is no folder of that name, as TGI does.
func (l *Loaded) hubModel() {
	const path, source = "model.path", "model.source"
	m := &l.Config.Model
	repo, _, _ := strings.Cut(m.Path, ":")
	repo, _, _ = strings.Cut(repo, "@")
	if origin := l.origins[path]; !strings.HasPrefix(origin, "flag ") && !strings.HasPrefix(origin, "env ") ||
		strings.Count(repo, "/") != 1 || m.Source != "" {
		return
	}
	if s, err := ParseSource(m.Path); err != nil || s.Repo == "" {
		return
	}
	if _, err := os.Stat(m.Path); err == nil {
		return
	}
	m.Source, m.Path = m.Path, ""
	l.origins[source] = l.origins[path]
	delete(l.origins, path)
}

// FileOf is the settings' file that Read will read: the one that a flag or the environment names, or else the default
// one.
func FileOf(flags *Flags, lookup func(string) (string, bool)) string {
	path, _ := fileOf(flags.given, func(name string) (string, bool) {
		value, ok := lookup(name)
		return value, ok && value != ""
	})
	return path
}

// fileOf is the path of the file, and whether anybody named it.
func fileOf(given map[string]string, present func(string) (string, bool)) (path string, named bool) {
	if path, named = given[configFlag]; !named {
		path, named = present(env(configFlag))
	}
	if !named {
		path = DefaultFile
	}
	return path, named
}

// isPipe reports whether a path leads to a pipe, as one of <(...) in a shell does.
func isPipe(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// readFile reads the file that a flag or the environment names, or else the
// default one if it is there.
func (l *Loaded) readFile(flags *Flags, present func(string) (string, bool)) error {
	path, ok := fileOf(flags.given, present)
	var text []byte
	var err error
	piped := path == Stdin
	if piped {
		path = stdinName
		text, err = flags.stdin.read()
	} else {
		text, err = regular.Read(path, 0, MaxFile)
	}
	switch {
	case !ok && errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		l.said = []string{path}
	}
	switch {
	case err != nil && isPipe(path):
		return fmt.Errorf("read configuration: %w; --%s %s reads the standard input", err, configFlag, Stdin)
	case err != nil:
		return fmt.Errorf("read configuration: %w", err)
	}
	l.said = append([]string{path}, textsIn(text)...)
	if err := l.Config.take(path, text); err != nil {
		return err
	}
	if piped {
		l.Config.File, l.Config.Stdin = "", true
	}
	l.Config.text = string(text)
	for key, line := range lines(text) {
		l.origins[canonical(key)] = fmt.Sprintf("%s:%d", path, line)
	}
	return nil
}

// textsIn are the texts among the values of a file, none where it is no TOML.
func textsIn(file []byte) (list []string) {
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			list = append(list, v)
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	var values map[string]any
	if toml.Unmarshal(file, &values) == nil {
		walk(values)
	}
	return list
}
