package fetch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Version is the release that is fetched.
const Version = "1.30.0"

// pin is the library inside one package: its path there, its length, and the
// SHA-256 of its bytes.
type pin struct {
	path   string
	bytes  int64
	sha256 string
}

// platform says where a platform's library comes from.
type platform struct {
	tag   string // pip's name of the platform
	wheel pin    // in the Python wheel
	npm   pin    // in the npm package
}

// platforms by GOOS-GOARCH.
var platforms = map[string]platform{
	"linux-amd64": {
		tag: "manylinux_2_28_x86_64",
		wheel: pin{"onnxruntime/capi/libonnxruntime.so." + Version, 28985152,
			"c902c70b3003c0e99fada202f37478c515ae9bba7944c2b2abd0017bae0c82ed"},
		npm: pin{"package/bin/napi-v6/linux/x64/libonnxruntime.so.1", 45828512,
			"ffb75a925ba05e47b235bb66e3e3911714a80b328a9c9425539feb204aa32a23"},
	},
	"linux-arm64": {
		tag: "manylinux_2_28_aarch64",
		wheel: pin{"onnxruntime/capi/libonnxruntime.so." + Version, 25135496,
			"8a218e1e446880131115c368ec7005969a5022af9a15a26173de648fef0b7789"},
		npm: pin{"package/bin/napi-v6/linux/arm64/libonnxruntime.so.1", 25135496,
			"1f549d46250b005580b597f4164984aaf75b3bcb9f3aeb07c7f8a8fe60b23c76"},
	},
	"darwin-arm64": {
		tag: "macosx_14_0_arm64",
		wheel: pin{"onnxruntime/capi/libonnxruntime." + Version + ".dylib", 33209560,
			"b46713ea6a25a5227541c21001f6422c1ccdeaecc369aa026a61b752520325c3"},
		npm: pin{"package/bin/napi-v6/darwin/arm64/libonnxruntime.1.dylib", 44589928,
			"685d2be5dba1309c89d3a5324b7fd06a5c42f1a61bfea32d14c4cc28d072121d"},
	},
}

// licences are the files of the wheels that go with the library, the same for all platforms.
var licences = []pin{
	{"onnxruntime/LICENSE", 1073, "2f07c72751aed99790b8a4869cf2311df85a860b22ded05fa22803587a48922c"},
	{"onnxruntime/ThirdPartyNotices.txt", 338088, "143764b952fdb1a7c69ce653bfba74a7744d6a8a573bfb73e235fba356c83de3"},
}

// thisPlatform is the key of platforms for the running program.
func thisPlatform() string { return runtime.GOOS + "-" + runtime.GOARCH }

// LibraryName returns the file name under which the library is kept.
func LibraryName() string { return libraryName(runtime.GOOS) }

// libraryName returns that name for a system.
func libraryName(goos string) string {
	if goos == "darwin" {
		return "libonnxruntime.dylib"
	}
	return "libonnxruntime.so"
}

// LibraryPath returns where the library of this platform is kept in the cache
// folder, whether it is there or not: below $TGI_CACHE, by default below the
// folder tgi in the user's cache folder.
func LibraryPath() (string, error) {
	root := os.Getenv("TGI_CACHE")
	if root == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache folder: %w (TGI_CACHE names one)", err)
		}
		root = filepath.Join(user, "tgi")
	}
	if !filepath.IsAbs(root) {
		return "", errors.New("TGI_CACHE must be an absolute path")
	}
	return filepath.Join(root, "onnxruntime", Version, thisPlatform(), LibraryName()), nil
}
