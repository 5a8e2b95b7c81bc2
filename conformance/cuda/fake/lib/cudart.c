// libcudart.so.13: memory is malloc's, copies are memcpy, kernels are counted and compute nothing.
#include "state.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 256 };  // before each allocation, for its size

static void *capturing;  // the stream that does

static __thread int last;  // what cudaGetLastError returns

static void handled(int signal) {}

// As the driver does, the fake sets handlers without SA_ONSTACK when it is loaded and at the first launch: a Go program
// that leaves them ends at the next signal.
__attribute__((constructor)) static void take_signals(void) {
	static const int taken[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction own = {.sa_handler = handled};
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) sigaction(taken[i], &own, NULL);
}

static int failing(void) { return (int)fake_state()->fail; }

int cudaGetDeviceCount(int *n) { *n = 1; return 0; }
int cudaGetDevice(int *n) { *n = 0; return 0; }
int cudaSetDevice(int n) { return n == 0 ? 0 : 101; }
int cudaRuntimeGetVersion(int *n) { *n = 13000; return 0; }
int cudaDriverGetVersion(int *n) { *n = 13000; return 0; }

// Offsets in cudaDeviceProp of CUDA 13; the values are those of an H200.
enum { PROPERTIES = 1008 };
static const struct { int at, value; } properties[] = {
	{296, 49152}, {304, 65536}, {308, 32}, {320, 1024}, {324, 1024}, {328, 1024}, {332, 64}, {336, 2147483647},
	{340, 65535}, {344, 65535}, {360, 9}, {364, 0}, {384, 132}, {596, 50 << 20}, {604, 2048}, {624, 233472},
	{632, 65536}, {672, 232448},
};

int cudaGetDeviceProperties(char *p, int device) {
	const size_t total = (size_t)fake_state()->total;
	memset(p, 0, PROPERTIES);
	strcpy(p, "Fake H200");
	memcpy(p + 288, &total, sizeof total);
	for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
		memcpy(p + properties[i].at, &properties[i].value, sizeof properties[i].value);
	return device == 0 ? 0 : 101;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
	switch (attribute) {
	case 8: *value = 49152; break;    // shared memory of a block
	case 16: *value = 132; break;     // multiprocessors
	case 36: *value = 3201000; break; // memory clock
	case 37: *value = 6144; break;    // memory bus
	case 75: *value = 9; break;       // capability
	case 76: *value = 0; break;
	case 97: *value = 232448; break;  // shared memory that a block may ask for
	default: *value = 1;
	}
	return 0;
}

int cudaMalloc(void **at, size_t n) {
	const int error = fault(ALLOCATION);
	if (error || fake_state()->no_memory) return error ? error : 2;
	char *p = NULL;
	if (posix_memalign((void **)&p, PREFIX, n + PREFIX)) return 2;
	memcpy(p, &n, sizeof n);
	memset(p + PREFIX, 0, n);  // what kernels would write stays zero, and is never what the heap held before
	COUNT(allocations, 1), COUNT(live, 1), COUNT(live_bytes, (int64_t)n);
	*at = p + PREFIX;
	return 0;
}

int cudaFree(void *at) {
	if (!at) return 0;
	size_t n;
	char *p = (char *)at - PREFIX;
	memcpy(&n, p, sizeof n);
	COUNT(live, -1), COUNT(live_bytes, -(int64_t)n);
	free(p);
	return 0;
}

int cudaMallocHost(void **at, size_t n) { return cudaMalloc(at, n); }
int cudaHostAlloc(void **at, size_t n, unsigned flags) { return cudaMalloc(at, n); }
int cudaFreeHost(void *at) { return cudaFree(at); }
int cudaFreeAsync(void *at, void *stream) { return cudaFree(at); }
int cudaMallocFromPoolAsync(void **at, size_t n, void *pool, void *stream) { return cudaMalloc(at, n); }

int cudaMemGetInfo(size_t *left, size_t *all) {
	*all = (size_t)fake_state()->total;
	const int64_t n = fake_state()->total - fake_state()->live_bytes;
	*left = n > 0 ? (size_t)n : 0;
	return failing();
}

int cudaMemcpy(void *to, const void *from, size_t n, int kind) {
	const int error = fault(COPY);
	if (error) return error;
	if (kind == 1) COUNT(copies_in, 1);
	if (kind == 2) COUNT(copies_out, 1);
	if (kind == 3) COUNT(copies_within, 1);
	memcpy(to, from, n);
	return 0;
}
int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream) {
	return cudaMemcpy(to, from, n, kind);
}
int cudaMemset(void *to, int value, size_t n) { memset(to, value, n); return failing(); }
int cudaMemsetAsync(void *to, int value, size_t n, void *stream) { return cudaMemset(to, value, n); }

int cudaStreamCreateWithFlags(void **s, unsigned flags) { COUNT(streams, 1); *s = malloc(8); return 0; }
int cudaStreamCreate(void **s) { return cudaStreamCreateWithFlags(s, 0); }
int cudaStreamDestroy(void *s) {
	if (capturing == s) capturing = NULL;
	COUNT(streams, -1);
	free(s);
	return 0;
}
int cudaStreamIsCapturing(void *s, int *yes) { *yes = capturing && capturing == s; return 0; }
int cudaStreamBeginCapture(void *s, int mode) {
	const int error = fault(CAPTURE);
	if (!error) COUNT(captures, 1), capturing = s;
	return error;
}
int cudaStreamEndCapture(void *s, void **graph) {
	const int error = fault(CAPTURE);
	capturing = NULL;
	*graph = error ? NULL : malloc(8);
	return error;
}
int cudaGraphInstantiate(void **run, void *graph, unsigned long long flags) {
	const int error = fault(INSTANTIATE);
	*run = error ? NULL : malloc(8);
	return error;
}
int cudaGraphLaunch(void *run, void *s) { COUNT(graph_launches, 1); return fault(REPLAY); }
int cudaGraphDestroy(void *graph) { free(graph); return 0; }
int cudaGraphExecDestroy(void *run) { free(run); return 0; }

// No thread may wait while one captures.
static int waits(void) {
	COUNT(waits, 1);
	return capturing ? 900 : fault(WAIT);
}
int cudaStreamSynchronize(void *s) { return waits(); }
int cudaDeviceSynchronize(void) { return waits(); }
int cudaEventSynchronize(void *e) { return waits(); }
int cudaEventCreateWithFlags(void **e, unsigned flags) { *e = malloc(8); return 0; }
int cudaEventCreate(void **e) { return cudaEventCreateWithFlags(e, 0); }
int cudaEventDestroy(void *e) { free(e); return 0; }
int cudaEventElapsedTime(float *ms, void *from, void *to) { *ms = 1; return 0; }

int cudaPointerGetAttributes(char *a, const void *p) {
	enum { ATTRIBUTES = 88, DEVICE = 2 };
	const int type = DEVICE;
	memset(a, 0, ATTRIBUTES);
	memcpy(a, &type, sizeof type);
	return 0;
}

const char *cudaGetErrorString(int error) { return error == 2 ? "out of memory" : "the fake device fails"; }
const char *cudaGetErrorName(int error) { return "fake"; }

static void *handle[4];
void **__cudaRegisterFatBinary(void *binary) { return handle; }

static int launched(void) {
	static int before;
	if (!__atomic_exchange_n(&before, 1, __ATOMIC_RELAXED)) take_signals();
	COUNT(launches, 1);
	const int error = fault(LAUNCH);
	if (error) last = error;
	return error;
}
int cudaPeekAtLastError(void) { return last; }
int cudaGetLastError(void) {
	const int error = last;
	last = 0;
	return error;
}
int __cudaLaunchKernel(void) { return launched(); }
int cudaLaunchKernel(void) { return launched(); }
int cudaLaunchKernelExC(void) { return launched(); }
int cudaLaunchCooperativeKernel(void) { return launched(); }

// The rest of what the provider asks for succeeds and does nothing.
#define NOTHING(name) int name(void) { return 0; }
NOTHING(__cudaGetKernel) NOTHING(__cudaPopCallConfiguration) NOTHING(__cudaPushCallConfiguration)
NOTHING(__cudaRegisterFatBinaryEnd) NOTHING(__cudaRegisterFunction) NOTHING(__cudaRegisterVar)
NOTHING(__cudaUnregisterFatBinary) NOTHING(cudaEventRecord) NOTHING(cudaEventRecordWithFlags)
NOTHING(cudaFuncGetAttributes) NOTHING(cudaFuncSetAttribute)
NOTHING(cudaKernelSetAttributeForDevice) NOTHING(cudaLaunchHostFunc)
NOTHING(cudaLibraryGetKernel) NOTHING(cudaLibraryLoadData) NOTHING(cudaLibraryUnload) NOTHING(cudaMemPoolCreate)
NOTHING(cudaMemPoolDestroy) NOTHING(cudaMemPoolGetAttribute) NOTHING(cudaMemPoolSetAttribute)
NOTHING(cudaMemPoolTrimTo) NOTHING(cudaMemcpy2DAsync) NOTHING(cudaMemcpyFromSymbol)
NOTHING(cudaStreamWaitEvent)

static int driver_call(void) { return 0; }

// Products of experts ask the driver to describe their tensors, and how many of their blocks fit.
int cudaGetDriverEntryPointByVersion(const char *name, void **call, unsigned version, unsigned long long flags,
                                     int *result) {
	*call = (void *)driver_call;
	if (result) *result = 0;
	return 0;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads, size_t shared,
                                                           unsigned flags) {
	*blocks = 1;
	return 0;
}
