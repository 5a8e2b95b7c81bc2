// The C side of the binding: the library, sessions, bound tensors and custom
// operators. Functions that can fail return null, or a message that the caller
// frees.
#ifndef TGI_SHIM_H
#define TGI_SHIM_H

#include "ortapi.h"

// tgi_ort is the loaded library; all null before tgi_load.
extern struct tgi_ort_api tgi_ort;

// tgi_load opens the library and reads its table of functions. *version
// receives the library's own version, to be freed, also when it is too old.
// The library stays open.
char *tgi_load(const char *path, char **version);

// tgi_add_operators registers the operators of the domain "tgi" with sessions
// that are opened with these options.
char *tgi_add_operators(OrtSessionOptions *options);

// tgi_has_entry reports in *has whether the options hold the entry.
char *tgi_has_entry(const OrtSessionOptions *options, const char *key, int *has);

struct tgi_session {
	OrtEnv *env;
	OrtSession *session;
	OrtIoBinding *binding;
	OrtMemoryInfo *memory;
	OrtRunOptions *run;
};

// tgi_session_open loads a model; *out is only set on success.
char *tgi_session_open(const char *path, const OrtSessionOptions *options, struct tgi_session **out);

// tgi_session_close frees the session and its bindings, but not the bound memory.
void tgi_session_close(struct tgi_session *s);

// tgi_session_count reports the number of inputs, or of outputs.
char *tgi_session_count(const struct tgi_session *s, int output, size_t *count);

// tgi_session_tensor reports the name (to be freed), the element type and up to
// *rank dimensions of an input or output; unknown dimensions are -1.
char *tgi_session_tensor(const struct tgi_session *s, int output, size_t index, char **name, unsigned *type,
                       int64_t *dims, size_t *rank);

// tgi_session_bind binds an input or output to data until it is bound again.
char *tgi_session_bind(struct tgi_session *s, int output, const char *name, void *data, size_t bytes, unsigned type,
                       const int64_t *shape, size_t rank);

// tgi_session_run runs the model on the bound tensors.
char *tgi_session_run(struct tgi_session *s);

// tgi_pages_map returns zeroed memory that is backed on first touch, or null.
void *tgi_pages_map(size_t bytes);
void tgi_pages_unmap(void *pages, size_t bytes);

// tgi_heap_configure makes glibc's malloc always return large allocations to the system when they are freed.
// It does nothing with other C libraries.
void tgi_heap_configure(void);

// tgi_heap_trim returns free memory between allocations to the system.
void tgi_heap_trim(void);

// tgi_operators returns the null-terminated list of custom operators.
const struct tgi_custom_op *const *tgi_operators(void);

#endif
