package ort

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// layoutCheck is a program that compiles if ortapi.h agrees with ONNX
// Runtime's own header.
const layoutCheck = `
#include "onnxruntime_c_api.h"
#include "ortapi.h"

#define AT(type, field) (offsetof(type, field))
#define SAME(a, b, what) _Static_assert((a) == (b), what)

SAME(TGI_ORT_API_VERSION, ORT_API_VERSION, "API version");
SAME(TGI_ORT_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "float");
SAME(TGI_ORT_INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "int32");
SAME(TGI_ORT_INT64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, "int64");
SAME(TGI_ORT_FLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, "float16");
SAME(TGI_ORT_BFLOAT16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, "bfloat16");
SAME(TGI_ORT_INVALID_ARGUMENT, ORT_INVALID_ARGUMENT, "invalid argument");
SAME(TGI_ORT_REQUIRED, INPUT_OUTPUT_REQUIRED, "required");
SAME(TGI_ORT_OPTIONAL, INPUT_OUTPUT_OPTIONAL, "optional");
SAME(TGI_ORT_LOG_ERROR, ORT_LOGGING_LEVEL_ERROR, "log level");
SAME(TGI_ORT_DEVICE_ALLOCATOR, OrtDeviceAllocator, "device allocator");
SAME(TGI_ORT_MEM_DEFAULT, OrtMemTypeDefault, "default memory");
SAME(TGI_ORT_MEM_CPU_INPUT, OrtMemTypeCPUInput, "an input in the host's memory");

// A parameter that is an enumeration there is an integer here, so our record
// of an operator has to stand in for theirs.
#define tgi_custom_op OrtCustomOp
#define CHECK(name, position, result, arguments)                                   \
	SAME(AT(OrtApi, name), (position) * sizeof(void *), #name " has another position"); \
	SAME(__builtin_types_compatible_p(__typeof__(((OrtApi *)0)->name), result(*) arguments), 1, #name " has another signature");
TGI_ORT_API(CHECK)
#undef tgi_custom_op

SAME(AT(OrtApiBase, GetApi), AT(struct tgi_ort_base, GetApi), "GetApi");
SAME(AT(OrtApiBase, GetVersionString), AT(struct tgi_ort_base, GetVersionString), "GetVersionString");
SAME(sizeof(OrtCustomOp), sizeof(struct tgi_custom_op), "size of an operator");
#define FIELD(name)                                                                \
	SAME(AT(OrtCustomOp, name), AT(struct tgi_custom_op, name), #name);               \
	SAME(sizeof(((OrtCustomOp *)0)->name), sizeof(((struct tgi_custom_op *)0)->name), #name " has another size");
FIELD(version) FIELD(CreateKernel) FIELD(GetName) FIELD(GetExecutionProviderType) FIELD(GetInputType)
FIELD(GetInputTypeCount) FIELD(GetOutputType) FIELD(GetOutputTypeCount) FIELD(KernelCompute) FIELD(KernelDestroy)
FIELD(GetInputCharacteristic) FIELD(GetOutputCharacteristic) FIELD(GetInputMemoryType) FIELD(GetVariadicInputMinArity)
FIELD(GetVariadicInputHomogeneity) FIELD(GetVariadicOutputMinArity) FIELD(GetVariadicOutputHomogeneity)
FIELD(CreateKernelV2) FIELD(KernelComputeV2) FIELD(InferOutputShapeFn) FIELD(GetStartVersion) FIELD(GetEndVersion)
FIELD(GetMayInplace) FIELD(ReleaseMayInplace) FIELD(GetAliasMap) FIELD(ReleaseAliasMap)
`

// compileLayout compiles a program against both headers and returns what the
// compiler says.
func compileLayout(t *testing.T, program string) (string, error) {
	t.Helper()
	cc, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := strings.Fields(string(cc))
	if len(compiler) == 0 {
		t.Skip("no C compiler")
	}
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/yalue/onnxruntime_go").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "layout.c")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(compiler[1:], "-std=gnu11", "-fsyntax-only", "-I.", "-I"+strings.TrimSpace(string(module)), source)
	out, err := exec.Command(compiler[0], args...).CombinedOutput()
	return string(out), err
}

func TestAPILayout(t *testing.T) {
	if out, err := compileLayout(t, layoutCheck); err != nil {
		t.Errorf("ortapi.h differs from ONNX Runtime's header: %v\n%s", err, out)
	}
	// The check must be able to fail.
	for _, wrong := range []string{
		`SAME(AT(OrtApi, CreateStatus), sizeof(void *), "");`,
		`SAME(__builtin_types_compatible_p(__typeof__(((OrtApi *)0)->GetDimensions), OrtStatus * (*)(int)), 1, "");`,
	} {
		if out, err := compileLayout(t, layoutCheck+wrong); err == nil {
			t.Errorf("compiles though wrong: %s\n%s", wrong, out)
		}
	}
}
