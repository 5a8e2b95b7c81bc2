package admin

import (
	"fmt"
	"strings"

	"tgi/server/generate"
)

// VersionName says which version of a plugin is meant: SHA256 or SHA256.SettingsID, of both of which the first digits
// are enough.
type VersionName struct {
	SHA256, SettingsID string
	// Settings says that it tells settings apart: it has a point.
	Settings bool
}

// ParseVersionName reads a name. Any text is one, if of no version.
func ParseVersionName(text string) (n VersionName) {
	n.SHA256, n.SettingsID, n.Settings = strings.Cut(strings.ToLower(text), ".")
	return n
}

// String writes the name.
func (n VersionName) String() string {
	if n.Settings {
		return n.SHA256 + "." + n.SettingsID
	}
	return n.SHA256
}

// Short is what is enough of the name to tell versions apart.
func (n VersionName) Short() string {
	n.SHA256, n.SettingsID = fmt.Sprintf("%.16s", n.SHA256), fmt.Sprintf("%.8s", n.SettingsID)
	return n.String()
}

// Names reports whether a version is one of those that are meant.
func (n VersionName) Names(sha256, settingsID string) bool {
	return strings.HasPrefix(sha256, n.SHA256) && strings.HasPrefix(settingsID, n.SettingsID)
}

// check refuses a name that is longer than any version's.
func (n VersionName) check() error {
	if len(n.SHA256) > 64 || len(n.SettingsID) > settingsDigits {
		return &generate.Invalid{Msg: fmt.Sprintf("to has %d characters, a sha256 has 64 and settings behind a "+
			"point %d", len(n.String()), settingsDigits)}
	}
	return nil
}
