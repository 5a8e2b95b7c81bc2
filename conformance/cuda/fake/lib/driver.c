// libcuda.so.1: the one function that the provider uses, and what runs our own kernel, which computes here what it
// computes on a device. reduce.cu and emulate.h are those of runtime/reduce.
#include "state.h"

#include "emulate.h"
#include "reduce.cu"

int cuTensorMapEncodeTiled(void) { return 0; }

enum { UNSUPPORTED_PTX = 222, NOT_FOUND = 500 };

static char the_module;

int cuModuleLoadData(void **module, const char *image) {
	if (fake_state()->no_kernels) return UNSUPPORTED_PTX;
	if (!strstr(image, ".entry tgi_reduce(")) return UNSUPPORTED_PTX;
	COUNT(modules, 1);
	*module = &the_module;
	return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
	*function = (void *)tgi_reduce;
	return strcmp(name, "tgi_reduce") ? NOT_FOUND : 0;
}

int cuModuleUnload(void *module) { COUNT(modules, -1); return 0; }

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
	static char busy;  // the emulation has static memory
	if (fake_state()->fail) return (int)fake_state()->fail;
	if (function != (void *)tgi_reduce || threads != THREADS || y != 1 || z != 1 || ty != 1 || tz != 1 || shared) return 1;
	COUNT(launches, 1);
	while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) {}
	stride = 1;
	for (block = 0; block < x; block++)
		tgi_reduce(*(const float **)arguments[0], *(const u32 **)arguments[1], *(float **)arguments[2],
			*(struct answer **)arguments[3], *(u32 *)arguments[4]);
	__atomic_clear(&busy, __ATOMIC_RELEASE);
	return 0;
}

int cuGetErrorString(int error, const char **text) {
	*text = error == UNSUPPORTED_PTX ? "the PTX is of an unsupported version" : "the fake device fails";
	return 0;
}
