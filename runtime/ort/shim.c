#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "op.h"

struct tgi_ort_api tgi_ort;

// own_pages is the size from which an allocation gets separate pages: most of a model's weights do.
enum { own_pages = 1 << 20, keep_free = 32 << 20 };

void tgi_heap_configure(void) {
#ifdef __GLIBC__
	// Left alone, glibc raises the first of these to the size of the largest piece that was ever given back, up to
	// 32 MiB. The weights of every model after the first then lie between small pieces in the heap, and stay resident
	// when the model is closed. Setting it also ends the adjustment of the second, without which the heap's end would
	// be given back and taken again in the steps of a model that runs.
	mallopt(M_MMAP_THRESHOLD, own_pages);
	mallopt(M_TRIM_THRESHOLD, keep_free);
#endif
}

void tgi_heap_trim(void) {
	op_scratch_trim();
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}

// message frees a status and returns its text, null for success.
static char *message(OrtStatus *status) {
	if (!status) return NULL;
	char *text = strdup(tgi_ort.GetErrorMessage(status));
	tgi_ort.ReleaseStatus(status);
	return text ? text : strdup("out of memory");
}

char *tgi_load(const char *path, char **version) {
	*version = NULL;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		const char *why = dlerror();
		return strdup(why ? why : "dlopen failed");
	}
	const struct tgi_ort_base *(*base)(void);
	void *symbol = dlsym(library, "OrtGetApiBase");
	memcpy(&base, &symbol, sizeof base);
	if (!symbol) {
		dlclose(library);
		return strdup("it does not export OrtGetApiBase");
	}
	*version = strdup(base()->GetVersionString());
	const void *const *table = base()->GetApi(TGI_ORT_API_VERSION);
	if (!table) {
		dlclose(library);
		return strdup("it is too old");
	}
#define TGI_ORT_COPY(name, position, result, arguments) memcpy(&tgi_ort.name, &table[position], sizeof(void *));
	TGI_ORT_API(TGI_ORT_COPY)
#undef TGI_ORT_COPY
	return NULL;
}

char *tgi_add_operators(OrtSessionOptions *options, int cuda) {
	static OrtCustomOpDomain *domains[2];  // live as long as the process: sessions refer to them
	OrtCustomOpDomain **domain = &domains[cuda];
	if (!*domain) {
		OrtCustomOpDomain *fresh = NULL;
		OrtStatus *status = tgi_ort.CreateCustomOpDomain("tgi", &fresh);
		const struct tgi_custom_op *const *op = cuda ? tgi_cuda_operators() : tgi_operators();
		for (; !status && *op; op++)
			status = tgi_ort.CustomOpDomain_Add(fresh, *op);
		if (status) {
			if (fresh) tgi_ort.ReleaseCustomOpDomain(fresh);
			return message(status);
		}
		*domain = fresh;
	}
	return message(tgi_ort.AddCustomOpDomain(options, *domain));
}

char *tgi_has_entry(const OrtSessionOptions *options, const char *key, int *has) {
	return message(tgi_ort.HasSessionConfigEntry(options, key, has));
}

char *tgi_cuda_stream(OrtCUDAProviderOptionsV2 *options, void *stream) {
	void *taken = NULL;
	OrtStatus *status = tgi_ort.UpdateCUDAProviderOptionsWithValue(options, "user_compute_stream", stream);
	if (!status) status = tgi_ort.GetCUDAProviderOptionsByName(options, "user_compute_stream", &taken);
	if (!status && taken != stream) return strdup("the provider did not take the stream");
	return message(status);
}

char *tgi_cuda_text(const OrtCUDAProviderOptionsV2 *options, char **text) {
	OrtAllocator *allocator = NULL;
	char *own = NULL;
	*text = NULL;
	OrtStatus *status = tgi_ort.GetAllocatorWithDefaultOptions(&allocator);
	if (!status) status = tgi_ort.GetCUDAProviderOptionsAsString(options, allocator, &own);
	if (!status && own) {
		*text = strdup(own);
		status = tgi_ort.AllocatorFree(allocator, own);
	}
	return message(status);
}

// map_file maps the file of weights.
static char *map_file(struct tgi_weights *w, const char *path) {
	enum { large = 2 << 20 };
	struct stat st;
	const int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0) return strdup(strerror(errno));
	char *why = NULL, *at = MAP_FAILED;
	if (!fstat(file, &st)) {
		w->space_bytes = (size_t)st.st_size + large;
		at = mmap(NULL, w->space_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	if (at != MAP_FAILED) {
		w->space = at, w->bytes = (size_t)st.st_size;
		w->data = at + (large - (uintptr_t)at % large) % large;
		at = mmap(w->data, w->bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
	}
	if (at == MAP_FAILED) why = strdup(strerror(errno));
	close(file);
	if (!why) tgi_pages_large(w->data, w->bytes);
	return why;
}

char *tgi_weights_map(const char *path, const struct tgi_matrix *matrices, size_t count, struct tgi_weights **out) {
	struct tgi_weights *w = calloc(1, sizeof *w + count * sizeof w->matrices[0]);
	if (!w) return strdup("out of memory");
	OrtMemoryInfo *host = NULL;
	char *why = message(tgi_ort.CreateCpuMemoryInfo(TGI_ORT_DEVICE_ALLOCATOR, TGI_ORT_MEM_DEFAULT, &host));
	if (!why) why = map_file(w, path);
	for (const struct tgi_matrix *m = matrices; !why && m < matrices + count; m++) {
		if (m->offset > w->bytes || m->bytes > w->bytes - m->offset) {
			why = strdup("a matrix lies outside the file of weights");
			break;
		}
		const size_t i = w->count++;
		w->matrices[i].name = strdup(m->name);
		if (!w->matrices[i].name) why = strdup("out of memory");
		if (!why)
			why = message(tgi_ort.CreateTensorWithDataAsOrtValue(host, w->data + m->offset, m->bytes, m->shape, m->rank,
			                                                     TGI_ORT_UINT8, &w->matrices[i].value));
	}
	if (host) tgi_ort.ReleaseMemoryInfo(host);
	if (why) {
		tgi_weights_close(w);
		return why;
	}
	*out = w;
	return NULL;
}

void tgi_weights_close(struct tgi_weights *w) {
	if (!w) return;
	for (size_t i = 0; i < w->count; i++) {
		free(w->matrices[i].name);
		if (w->matrices[i].value) tgi_ort.ReleaseValue(w->matrices[i].value);
	}
	if (w->space) munmap(w->space, w->space_bytes);
	free(w);
}

char *tgi_session_open(const char *path, OrtSessionOptions *options, int device, const struct tgi_weights *weights,
                       struct tgi_session **out) {
	struct tgi_session *s = calloc(1, sizeof *s);
	if (!s) return strdup("out of memory");
	// The library has one environment per process; this only counts a reference.
	OrtStatus *status = tgi_ort.CreateEnv(TGI_ORT_LOG_ERROR, "tgi", &s->env);
	for (size_t i = 0; !status && weights && i < weights->count; i++)
		status = tgi_ort.AddInitializer(options, weights->matrices[i].name, weights->matrices[i].value);
	if (!status) status = tgi_ort.CreateSession(s->env, path, options, &s->session);
	if (!status) status = tgi_ort.CreateCpuMemoryInfo(TGI_ORT_DEVICE_ALLOCATOR, TGI_ORT_MEM_DEFAULT, &s->host);
	if (!status && device >= 0)
		status = tgi_ort.CreateMemoryInfo("Cuda", TGI_ORT_DEVICE_ALLOCATOR, device, TGI_ORT_MEM_DEFAULT, &s->device);
	if (status) {
		tgi_session_close(s);
		return message(status);
	}
	*out = s;
	return NULL;
}

void tgi_session_close(struct tgi_session *s) {
	if (s->host) tgi_ort.ReleaseMemoryInfo(s->host);
	if (s->device) tgi_ort.ReleaseMemoryInfo(s->device);
	if (s->session) tgi_ort.ReleaseSession(s->session);
	if (s->env) tgi_ort.ReleaseEnv(s->env);
	free(s);
}

// put_node writes a node's line.
static OrtStatus *put_node(FILE *to, const char *provider, const OrtEpAssignedNode *node) {
	const char *name = NULL, *type = NULL;
	OrtStatus *status = tgi_ort.EpAssignedNode_GetName(node, &name);
	if (!status) status = tgi_ort.EpAssignedNode_GetOperatorType(node, &type);
	if (!status) fprintf(to, "%s %s %s\n", provider, type, name);
	return status;
}

char *tgi_session_nodes(const struct tgi_session *s, char **lines) {
	const OrtEpAssignedSubgraph *const *graphs = NULL;
	size_t count = 0, size = 0;
	*lines = NULL;
	OrtStatus *status = tgi_ort.Session_GetEpGraphAssignmentInfo(s->session, &graphs, &count);
	if (status) return message(status);
	FILE *to = open_memstream(lines, &size);
	if (!to) return strdup("out of memory");
	for (size_t g = 0; !status && g < count; g++) {
		const OrtEpAssignedNode *const *nodes = NULL;
		const char *provider = NULL;
		size_t n = 0;
		status = tgi_ort.EpAssignedSubgraph_GetEpName(graphs[g], &provider);
		if (!status) status = tgi_ort.EpAssignedSubgraph_GetNodes(graphs[g], &nodes, &n);
		for (size_t i = 0; !status && i < n; i++) status = put_node(to, provider, nodes[i]);
	}
	fclose(to);
	return message(status);
}

char *tgi_session_count(const struct tgi_session *s, int output, size_t *count) {
	return message(output ? tgi_ort.SessionGetOutputCount(s->session, count)
	                      : tgi_ort.SessionGetInputCount(s->session, count));
}

// tensor_info reads the element type and dimensions of a tensor's type.
static OrtStatus *tensor_info(const OrtTypeInfo *info, unsigned *type, int64_t *dims, size_t *rank) {
	const OrtTensorTypeAndShapeInfo *tensor = NULL;
	OrtStatus *status = tgi_ort.CastTypeInfoToTensorInfo(info, &tensor);
	if (status) return status;
	if (!tensor) return tgi_ort.CreateStatus(TGI_ORT_INVALID_ARGUMENT, "it is not a tensor");
	const size_t room = *rank;
	status = tgi_ort.GetTensorElementType(tensor, type);
	if (!status) status = tgi_ort.GetDimensionsCount(tensor, rank);
	if (!status) status = tgi_ort.GetDimensions(tensor, dims, *rank < room ? *rank : room);
	return status;
}

char *tgi_session_tensor(const struct tgi_session *s, int output, size_t index, char **name, unsigned *type,
                       int64_t *dims, size_t *rank) {
	OrtAllocator *allocator = NULL;
	OrtTypeInfo *info = NULL;
	char *own = NULL;
	OrtStatus *status = tgi_ort.GetAllocatorWithDefaultOptions(&allocator);
	if (!status)
		status = output ? tgi_ort.SessionGetOutputName(s->session, index, allocator, &own)
		                : tgi_ort.SessionGetInputName(s->session, index, allocator, &own);
	if (!status)
		status = output ? tgi_ort.SessionGetOutputTypeInfo(s->session, index, &info)
		                : tgi_ort.SessionGetInputTypeInfo(s->session, index, &info);
	if (!status) status = tensor_info(info, type, dims, rank);
	if (info) tgi_ort.ReleaseTypeInfo(info);
	*name = own && !status ? strdup(own) : NULL;
	if (own) {
		OrtStatus *freed = tgi_ort.AllocatorFree(allocator, own);
		if (freed) tgi_ort.ReleaseStatus(freed);
	}
	return message(status);
}

char *tgi_bound_open(const struct tgi_session *s, struct tgi_bound **out) {
	struct tgi_bound *b = calloc(1, sizeof *b);
	if (!b) return strdup("out of memory");
	b->session = s;
	OrtStatus *status = tgi_ort.CreateIoBinding(s->session, &b->binding);
	if (!status) status = tgi_ort.CreateRunOptions(&b->run);
	if (status) {
		tgi_bound_close(b);
		return message(status);
	}
	*out = b;
	return NULL;
}

void tgi_bound_close(struct tgi_bound *b) {
	if (b->run) tgi_ort.ReleaseRunOptions(b->run);
	if (b->binding) tgi_ort.ReleaseIoBinding(b->binding);
	free(b);
}

char *tgi_bound_option(struct tgi_bound *b, const char *key, const char *value) {
	return message(tgi_ort.AddRunConfigEntry(b->run, key, value));
}

char *tgi_bound_bind(struct tgi_bound *b, const struct tgi_tensor *t) {
	OrtValue *value = NULL;
	const OrtMemoryInfo *memory = t->on_device ? b->session->device : b->session->host;
	OrtStatus *status =
	    tgi_ort.CreateTensorWithDataAsOrtValue(memory, t->data, t->bytes, t->shape, t->rank, t->type, &value);
	if (status) return message(status);
	status = t->output ? tgi_ort.BindOutput(b->binding, t->name, value) : tgi_ort.BindInput(b->binding, t->name, value);
	tgi_ort.ReleaseValue(value);  // the binding holds its own reference
	return message(status);
}

char *tgi_bound_terminate(struct tgi_bound *b) { return message(tgi_ort.RunOptionsSetTerminate(b->run)); }

static int64_t nanoseconds(clockid_t clock) {
	struct timespec t = {0};
	clock_gettime(clock, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

char *tgi_bound_run(struct tgi_bound *b) {
	const int64_t began = nanoseconds(CLOCK_MONOTONIC), before = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
	OrtStatus *status = tgi_ort.RunWithBinding(b->session->session, b->run, b->binding);
	b->computed = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before;
	b->took = nanoseconds(CLOCK_MONOTONIC) - began;
	return message(status);
}

void *tgi_pages_map(size_t bytes) {
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
	if (pages == MAP_FAILED) return NULL;
	return pages;
}

void tgi_pages_unmap(void *pages, size_t bytes) { munmap(pages, bytes); }

void tgi_pages_large(void *pages, size_t bytes) {
#ifdef MADV_HUGEPAGE
	madvise(pages, bytes, MADV_HUGEPAGE);
#else
	(void)pages, (void)bytes;
#endif
}
