#include "kernel.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "cuda.h"

// X(name, arguments) of functions of the driver, all of which return an int.
#define DRIVER(X)                                                                                                    \
	X(ModuleLoadData, (void **, const void *))                                                                         \
	X(ModuleGetFunction, (void **, void *, const char *))                                                              \
	X(ModuleUnload, (void *))                                                                                          \
	X(LaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,    \
	                 void **))                                                                                         \
	X(GetErrorString, (int, const char **))

static struct {
#define FIELD(name, arguments) int(*name) arguments;
	DRIVER(FIELD)
#undef FIELD
} driver;

// ready looks the functions up and makes a device's context the thread's. Threads that come first at the same time
// find the same.
static int ready(int device) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD), *symbol;
	if (!library) return -1;
#define FIND(name, arguments)                              \
	if (!(symbol = dlsym(library, "cu" #name))) return -1;   \
	memcpy(&driver.name, &symbol, sizeof symbol);
	if (!driver.GetErrorString) {
		DRIVER(FIND)
	}
#undef FIND
	dlclose(library);  // the runtime keeps it
	return tgi_cudart.SetDevice(device);
}

int tgi_kernel_load(int device, const char *ptx, const char *name, void **module, void **function) {
	int error = ready(device);
	if (error == 0) error = driver.ModuleLoadData(module, ptx);
	if (error != 0) return error;
	error = driver.ModuleGetFunction(function, *module, name);
	if (error != 0) driver.ModuleUnload(*module);
	return error;
}

int tgi_kernel_unload(int device, void *module) {
	const int error = tgi_cudart.SetDevice(device);
	return error ? error : driver.ModuleUnload(module);
}

int tgi_kernel_launch(int device, void *function, unsigned x, unsigned y, unsigned threads, void *stream,
                      uint64_t *arguments, int n) {
	void *at[TGI_KERNEL_ARGUMENTS];
	for (int i = 0; i < n; i++) at[i] = &arguments[i];
	const int error = tgi_cudart.SetDevice(device);
	return error ? error : driver.LaunchKernel(function, x, y, 1, threads, 1, 1, 0, stream, at, NULL);
}

const char *tgi_kernel_error(int code) {
	const char *text = NULL;
	if (code == -1) return "the driver's library lacks a function";
	return driver.GetErrorString(code, &text) == 0 && text ? text : "unknown error";
}
