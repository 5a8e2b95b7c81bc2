// libcuda.so.1: the one function that the provider uses, and what runs our own kernels, which compute here what they
// compute on a device.
#include "state.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"

int cuTensorMapEncodeTiled(void) { return 0; }

enum { UNSUPPORTED_PTX = 222, NOT_FOUND = 500 };

#define ADDRESS(name, threads) &name##_kernel,
static const struct kernel *const kernels[] = {ATTENDS(ADDRESS) &reduce_kernel, &shrink_kernel, &expand_kernel};
enum { KERNELS = sizeof kernels / sizeof *kernels };

// A module is the text that it was made of.
int cuModuleLoadData(void **module, const char *image) {
	if (fake_state()->no_kernels || !strstr(image, ".entry tgi_")) return UNSUPPORTED_PTX;
	COUNT(modules, 1);
	*module = strdup(image);
	return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
	char entry[64] = ".entry ";
	strncat(strncat(entry, name, 50), "(", 2);
	for (int i = 0; i < KERNELS; i++) {
		if (strcmp(kernels[i]->name, name) || !strstr(module, entry)) continue;
		*function = (void *)kernels[i];
		return 0;
	}
	return NOT_FOUND;
}

int cuModuleUnload(void *module) {
	COUNT(modules, -1);
	free(module);
	return 0;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
	static char busy;  // the emulation has static memory
	const struct kernel *k = function;
	if (threads != k->threads || !x || !y || x > 0x7fffffff || y > 65535 || z != 1 || ty != 1 || tz != 1 || shared) return 1;
	const int error = fault(LAUNCH);
	if (error) return error;
	COUNT(launches, 1);
	const int attention = !strncmp(k->name, "tgi_attend", 10);
	if (attention) COUNT(attentions, 1);
	else COUNT(own_launches, 1);
	if (attention && !fake_state()->attends) return 0;
	while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) {}
	k->run(x, y, arguments);
	__atomic_clear(&busy, __ATOMIC_RELEASE);
	return 0;
}

int cuGetErrorString(int error, const char **text) {
	*text = error == UNSUPPORTED_PTX ? "the PTX is of an unsupported version" : "the fake device fails";
	return 0;
}
