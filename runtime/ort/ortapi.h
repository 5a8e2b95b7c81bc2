// The part of ONNX Runtime's C interface that this package calls, as facts:
// names, signatures, positions in the table of functions, and the layout of
// the record that describes a custom operator. The table only ever grows at
// its end, so these positions hold for every library of API_VERSION or newer.
//
// TestAPILayout compiles this header against ONNX Runtime's own, which comes
// with the Go binding, and compares every position and every signature.
#ifndef TGI_ORTAPI_H
#define TGI_ORTAPI_H

#include <stddef.h>
#include <stdint.h>

// API_VERSION is what the Go binding asks for too; ONNX Runtime 1.29 and newer have it.
#define TGI_ORT_API_VERSION 29

// CUSTOM_OP_VERSION is the version of the operator record that we fill; fields
// that are younger than it are not read by the library.
#define TGI_CUSTOM_OP_VERSION 16
// TGI_ALIAS_OP_VERSION is that of operators which fill GetAliasMap too.
#define TGI_ALIAS_OP_VERSION 18

typedef struct OrtStatus OrtStatus;
typedef struct OrtEnv OrtEnv;
typedef struct OrtSession OrtSession;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtRunOptions OrtRunOptions;
typedef struct OrtMemoryInfo OrtMemoryInfo;
typedef struct OrtAllocator OrtAllocator;
typedef struct OrtIoBinding OrtIoBinding;
typedef struct OrtValue OrtValue;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtOp OrtOp;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtCUDAProviderOptionsV2 OrtCUDAProviderOptionsV2;
typedef struct OrtEpAssignedSubgraph OrtEpAssignedSubgraph;
typedef struct OrtEpAssignedNode OrtEpAssignedNode;

struct tgi_custom_op;

// Element types where a signature has them behind a pointer to constants, for which an integer cannot stand in.
enum ONNXTensorElementDataType;

// Element types.
enum { TGI_ORT_ANY = 0, TGI_ORT_FLOAT = 1, TGI_ORT_UINT8 = 2, TGI_ORT_INT32 = 6, TGI_ORT_INT64 = 7, TGI_ORT_FLOAT16 = 10, TGI_ORT_BFLOAT16 = 16 };
enum { TGI_ORT_FAIL = 1, TGI_ORT_INVALID_ARGUMENT = 2 };           // status codes
enum { TGI_ORT_REQUIRED = 0, TGI_ORT_OPTIONAL = 1 };               // inputs of an operator
enum { TGI_ORT_LOG_ERROR = 3 };
enum { TGI_ORT_ATTRIBUTE_INT = 1, TGI_ORT_ATTRIBUTE_FLOAT = 3 };
enum { TGI_ORT_DEVICE_ALLOCATOR = 0, TGI_ORT_MEM_DEFAULT = 0, TGI_ORT_MEM_CPU_INPUT = -2 };

// X(name, position, result, arguments). Enumerations appear as the integers that carry them.
#define TGI_ORT_API(X)                                                                                              \
	X(CreateStatus, 0, OrtStatus *, (unsigned, const char *))                                                         \
	X(GetErrorMessage, 2, const char *, (const OrtStatus *))                                                          \
	X(CreateEnv, 3, OrtStatus *, (unsigned, const char *, OrtEnv **))                                                 \
	X(CreateSession, 7, OrtStatus *, (const OrtEnv *, const char *, const OrtSessionOptions *, OrtSession **))        \
	X(CreateCustomOpDomain, 26, OrtStatus *, (const char *, OrtCustomOpDomain **))                                    \
	X(CustomOpDomain_Add, 27, OrtStatus *, (OrtCustomOpDomain *, const struct tgi_custom_op *))                       \
	X(AddCustomOpDomain, 28, OrtStatus *, (OrtSessionOptions *, OrtCustomOpDomain *))                                 \
	X(SessionGetInputCount, 30, OrtStatus *, (const OrtSession *, size_t *))                                          \
	X(SessionGetOutputCount, 31, OrtStatus *, (const OrtSession *, size_t *))                                         \
	X(SessionGetInputTypeInfo, 33, OrtStatus *, (const OrtSession *, size_t, OrtTypeInfo **))                         \
	X(SessionGetOutputTypeInfo, 34, OrtStatus *, (const OrtSession *, size_t, OrtTypeInfo **))                        \
	X(SessionGetInputName, 36, OrtStatus *, (const OrtSession *, size_t, OrtAllocator *, char **))                    \
	X(SessionGetOutputName, 37, OrtStatus *, (const OrtSession *, size_t, OrtAllocator *, char **))                   \
	X(CreateRunOptions, 39, OrtStatus *, (OrtRunOptions **))                                                          \
	X(RunOptionsSetTerminate, 46, OrtStatus *, (OrtRunOptions *))                                                     \
	X(CreateTensorWithDataAsOrtValue, 49, OrtStatus *,                                                                \
	  (const OrtMemoryInfo *, void *, size_t, const int64_t *, size_t, unsigned, OrtValue **))                        \
	X(GetTensorMutableData, 51, OrtStatus *, (OrtValue *, void **))                                                   \
	X(CastTypeInfoToTensorInfo, 55, OrtStatus *, (const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **))           \
	X(GetTensorElementType, 60, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, unsigned *))                         \
	X(GetDimensionsCount, 61, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, size_t *))                             \
	X(GetDimensions, 62, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, int64_t *, size_t))                         \
	X(CreateMemoryInfo, 68, OrtStatus *, (const char *, int, int, int, OrtMemoryInfo **))                          \
	X(CreateCpuMemoryInfo, 69, OrtStatus *, (int, int, OrtMemoryInfo **))                                             \
	X(AllocatorFree, 76, OrtStatus *, (OrtAllocator *, void *))                                                       \
	X(GetAllocatorWithDefaultOptions, 78, OrtStatus *, (OrtAllocator **))                                             \
	X(KernelInfoGetAttribute_float, 85, OrtStatus *, (const OrtKernelInfo *, const char *, float *))                  \
	X(KernelInfoGetAttribute_int64, 86, OrtStatus *, (const OrtKernelInfo *, const char *, int64_t *))                \
	X(KernelContext_GetInputCount, 88, OrtStatus *, (const OrtKernelContext *, size_t *))                             \
	X(KernelContext_GetInput, 90, OrtStatus *, (const OrtKernelContext *, size_t, const OrtValue **))                 \
	X(KernelContext_GetOutput, 91, OrtStatus *, (OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **))   \
	X(ReleaseEnv, 92, void, (OrtEnv *))                                                                               \
	X(ReleaseStatus, 93, void, (OrtStatus *))                                                                         \
	X(ReleaseMemoryInfo, 94, void, (OrtMemoryInfo *))                                                                 \
	X(ReleaseSession, 95, void, (OrtSession *))                                                                       \
	X(ReleaseValue, 96, void, (OrtValue *))                                                                           \
	X(ReleaseRunOptions, 97, void, (OrtRunOptions *))                                                                 \
	X(ReleaseTypeInfo, 98, void, (OrtTypeInfo *))                                                                     \
	X(ReleaseTensorTypeAndShapeInfo, 99, void, (OrtTensorTypeAndShapeInfo *))                                         \
	X(ReleaseCustomOpDomain, 101, void, (OrtCustomOpDomain *))                                                        \
	X(RunWithBinding, 133, OrtStatus *, (OrtSession *, const OrtRunOptions *, const OrtIoBinding *))                  \
	X(CreateIoBinding, 134, OrtStatus *, (OrtSession *, OrtIoBinding **))                                             \
	X(ReleaseIoBinding, 135, void, (OrtIoBinding *))                                                                  \
	X(BindInput, 136, OrtStatus *, (OrtIoBinding *, const char *, const OrtValue *))                                  \
	X(BindOutput, 137, OrtStatus *, (OrtIoBinding *, const char *, const OrtValue *))                                 \
	X(AddInitializer, 150, OrtStatus *, (OrtSessionOptions *, const char *, const OrtValue *))                         \
	X(AddRunConfigEntry, 165, OrtStatus *, (OrtRunOptions *, const char *, const char *))                             \
	X(KernelContext_GetGPUComputeStream, 193, OrtStatus *, (const OrtKernelContext *, void **))                       \
	X(GetCUDAProviderOptionsAsString, 207, OrtStatus *,                                                            \
	  (const OrtCUDAProviderOptionsV2 *, OrtAllocator *, char **))                                                 \
	X(CreateOpAttr, 211, OrtStatus *, (const char *, const void *, int, unsigned, OrtOpAttr **))                      \
	X(ReleaseOpAttr, 212, void, (OrtOpAttr *))                                                                        \
	X(CreateOp, 213, OrtStatus *,                                                                                     \
	  (const OrtKernelInfo *, const char *, const char *, int, const char **,                                         \
	   const enum ONNXTensorElementDataType *, int, const OrtOpAttr *const *, int, int, int, OrtOp **))              \
	X(InvokeOp, 214, OrtStatus *,                                                                                     \
	  (const OrtKernelContext *, const OrtOp *, const OrtValue *const *, int, OrtValue *const *, int))                \
	X(ReleaseOp, 215, void, (OrtOp *))                                                                                \
	X(HasSessionConfigEntry, 237, OrtStatus *, (const OrtSessionOptions *, const char *, int *))                      \
	X(UpdateCUDAProviderOptionsWithValue, 263, OrtStatus *, (OrtCUDAProviderOptionsV2 *, const char *, void *))    \
	X(GetCUDAProviderOptionsByName, 264, OrtStatus *, (const OrtCUDAProviderOptionsV2 *, const char *, void **))   \
	X(KernelContext_ParallelFor, 274, OrtStatus *,                                                                    \
	  (const OrtKernelContext *, void (*)(void *, size_t), size_t, size_t, void *))                                   \
	X(Session_GetEpGraphAssignmentInfo, 407, OrtStatus *,                                                          \
	  (const OrtSession *, const OrtEpAssignedSubgraph *const **, size_t *))                                       \
	X(EpAssignedSubgraph_GetEpName, 408, OrtStatus *, (const OrtEpAssignedSubgraph *, const char **))              \
	X(EpAssignedSubgraph_GetNodes, 409, OrtStatus *,                                                               \
	  (const OrtEpAssignedSubgraph *, const OrtEpAssignedNode *const **, size_t *))                                \
	X(EpAssignedNode_GetName, 410, OrtStatus *, (const OrtEpAssignedNode *, const char **))                        \
	X(EpAssignedNode_GetOperatorType, 412, OrtStatus *, (const OrtEpAssignedNode *, const char **))                \
	X(GetTensorElementTypeAndShapeDataReference, 414, OrtStatus *,                                                  \
	  (const OrtValue *, unsigned *, const int64_t **, size_t *))

// tgi_ort_api holds the functions of the loaded library, copied out of its table.
struct tgi_ort_api {
#define TGI_ORT_FIELD(name, position, result, arguments) result(*name) arguments;
	TGI_ORT_API(TGI_ORT_FIELD)
#undef TGI_ORT_FIELD
};

// tgi_ort_base is what the library's one exported function returns.
struct tgi_ort_base {
	const void *const *(*GetApi)(uint32_t version);
	const char *(*GetVersionString)(void);
};

// tgi_custom_op describes an operator to the library.
struct tgi_custom_op {
	uint32_t version;
	void *(*CreateKernel)(const struct tgi_custom_op *, const void *api, const OrtKernelInfo *);
	const char *(*GetName)(const struct tgi_custom_op *);
	const char *(*GetExecutionProviderType)(const struct tgi_custom_op *);
	unsigned (*GetInputType)(const struct tgi_custom_op *, size_t);
	size_t (*GetInputTypeCount)(const struct tgi_custom_op *);
	unsigned (*GetOutputType)(const struct tgi_custom_op *, size_t);
	size_t (*GetOutputTypeCount)(const struct tgi_custom_op *);
	void (*KernelCompute)(void *kernel, OrtKernelContext *);
	void (*KernelDestroy)(void *kernel);
	unsigned (*GetInputCharacteristic)(const struct tgi_custom_op *, size_t);
	unsigned (*GetOutputCharacteristic)(const struct tgi_custom_op *, size_t);
	int (*GetInputMemoryType)(const struct tgi_custom_op *, size_t);
	int (*GetVariadicInputMinArity)(const struct tgi_custom_op *);
	int (*GetVariadicInputHomogeneity)(const struct tgi_custom_op *);
	int (*GetVariadicOutputMinArity)(const struct tgi_custom_op *);
	int (*GetVariadicOutputHomogeneity)(const struct tgi_custom_op *);
	OrtStatus *(*CreateKernelV2)(const struct tgi_custom_op *, const void *api, const OrtKernelInfo *, void **kernel);
	OrtStatus *(*KernelComputeV2)(void *kernel, OrtKernelContext *);
	OrtStatus *(*InferOutputShapeFn)(const struct tgi_custom_op *, void *);
	int (*GetStartVersion)(const struct tgi_custom_op *);
	int (*GetEndVersion)(const struct tgi_custom_op *);
	size_t (*GetMayInplace)(int **input, int **output);
	void (*ReleaseMayInplace)(int *input, int *output);
	// GetAliasMap lists pairs of inputs and outputs that share memory; ReleaseAliasMap frees the lists.
	size_t (*GetAliasMap)(int **input, int **output);
	void (*ReleaseAliasMap)(int *input, int *output);
};

#endif
