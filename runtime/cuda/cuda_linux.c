#include "cuda.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tgi_cudart tgi_cudart;

char *tgi_library_open(const char *path, void **library) {
	*library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (*library) return NULL;
	const char *why = dlerror();
	return strdup(why ? why : "dlopen failed");
}

char *tgi_cudart_load(void *library) {
	struct tgi_cudart table;
	void *symbol;
#define TGI_CUDART_FIND(name, arguments)                                 \
	if (!(symbol = dlsym(library, "cuda" #name))) return strdup("it does not export cuda" #name); \
	memcpy(&table.name, &symbol, sizeof symbol);
	TGI_CUDART(TGI_CUDART_FIND)
	TGI_CUDART_FIND(GetErrorString, )
#undef TGI_CUDART_FIND
	tgi_cudart = table;
	return NULL;
}

int tgi_driver_version(void *library) {
	int (*get)(int *) = NULL, version = 0;
	void *symbol = dlsym(library, "cuDriverGetVersion");
	if (!symbol) return 0;
	memcpy(&get, &symbol, sizeof symbol);
	return get(&version) == 0 ? version : 0;
}

static struct sigaction saved[NSIG];
static int signals_saved;

void tgi_signals_save(void) {
	for (int s = 1; s < NSIG; s++)
		if (sigaction(s, NULL, &saved[s]) != 0) saved[s].sa_handler = SIG_ERR;
	signals_saved = 1;
}

void tgi_signals_restore(void) {
	for (int s = 1; signals_saved && s < NSIG; s++) {
		struct sigaction now;
		if (saved[s].sa_handler == SIG_ERR || sigaction(s, NULL, &now) != 0) continue;
		if (now.sa_sigaction != saved[s].sa_sigaction || now.sa_flags != saved[s].sa_flags) sigaction(s, &saved[s], NULL);
	}
}
