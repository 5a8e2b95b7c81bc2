package replay

import (
	"errors"
	"fmt"
	"strings"

	"tgi/runtime/regular"
)

// maxKey bounds the file of a key, in bytes.
const maxKey = 64 << 10

// ReadKeys returns the keys of a list of NAME=KEY and NAME=@FILE by their names. Errors show no key.
func ReadKeys(list []string) (map[string]string, error) {
	keys := map[string]string{}
	for _, one := range list {
		name, key, ok := strings.Cut(one, "=")
		if file, from := strings.CutPrefix(key, "@"); from {
			text, err := regular.Read(file, 0, maxKey)
			if err != nil {
				return nil, fmt.Errorf("the key of %.64q: %w", name, err)
			}
			key = strings.TrimSpace(string(text))
		}
		if !ok || name == "" || key == "" {
			return nil, errors.New("want NAME=KEY or NAME=@FILE, with neither empty")
		}
		if _, twice := keys[name]; twice {
			return nil, fmt.Errorf("%.64q comes twice", name)
		}
		keys[name] = key
	}
	return keys, nil
}
