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

// tgi_add_operators registers the operators of the domain "tgi", for the CPU or for CUDA devices, with sessions that
// are opened with these options.
char *tgi_add_operators(OrtSessionOptions *options, int cuda);

// tgi_has_entry reports in *has whether the options hold the entry.
char *tgi_has_entry(const OrtSessionOptions *options, const char *key, int *has);

// tgi_cuda_stream has sessions with these options compute on the stream, and checks that the provider took the
// pointer: given as text, the library accepts the option and uses the default stream.
char *tgi_cuda_stream(OrtCUDAProviderOptionsV2 *options, void *stream);

// tgi_cuda_text returns the options as the library writes them, to be freed.
char *tgi_cuda_text(const OrtCUDAProviderOptionsV2 *options, char **text);

// tgi_matrix is a matrix of bytes in a file of weights.
struct tgi_matrix {
	const char *name;
	size_t offset, bytes;
	int64_t shape[4];
	size_t rank;
};

// tgi_weights are the matrices of a mapped file, which sessions share.
struct tgi_weights {
	char *data;
	size_t bytes;
	void *space;  // that the mapping lies in
	size_t space_bytes;
	size_t count;
	struct {
		char *name;
		OrtValue *value;
	} matrices[];
};

// tgi_weights_map maps a file at an address that is a multiple of large pages: what the system keeps of the file in
// large pages it then maps as such, and threads that read weights miss its tables of pages less often.
char *tgi_weights_map(const char *path, const struct tgi_matrix *matrices, size_t count, struct tgi_weights **out);

// tgi_weights_close unmaps them, after the sessions that have them. w may be null.
void tgi_weights_close(struct tgi_weights *w);

struct tgi_session {
	OrtEnv *env;
	OrtSession *session;
	OrtMemoryInfo *host;
	OrtMemoryInfo *device;  // null without a device
};

// tgi_session_open loads a model; *out is only set on success. device is the CUDA device whose memory may be bound,
// -1 for none. Matrices of weights, which may be null, are used where they are; all else is the library's to map.
char *tgi_session_open(const char *path, OrtSessionOptions *options, int device, const struct tgi_weights *weights,
                       struct tgi_session **out);

// tgi_session_close frees the session, whose bound tensors are closed.
void tgi_session_close(struct tgi_session *s);

// tgi_session_nodes returns a line "provider operator name" for each node, to be freed. The session was opened with
// session.record_ep_graph_assignment_info.
char *tgi_session_nodes(const struct tgi_session *s, char **lines);

// tgi_session_count reports the number of inputs, or of outputs.
char *tgi_session_count(const struct tgi_session *s, int output, size_t *count);

// tgi_session_tensor reports the name (to be freed), the element type and up to
// *rank dimensions of an input or output; unknown dimensions are -1.
char *tgi_session_tensor(const struct tgi_session *s, int output, size_t index, char **name, unsigned *type,
                       int64_t *dims, size_t *rank);

// tgi_bound is a set of tensors that a session runs on, and how it runs on them.
struct tgi_bound {
	const struct tgi_session *session;
	OrtIoBinding *binding;
	OrtRunOptions *run;
	// Of the last run, in nanoseconds: how long it took, and for how much of that the thread that began it had a core.
	int64_t took, computed;
};

// tgi_tensor is memory as an input or output.
struct tgi_tensor {
	const char *name;
	void *data;
	size_t bytes, rank;
	int64_t shape[4];
	unsigned type;
	int output, on_device;
};

char *tgi_bound_open(const struct tgi_session *s, struct tgi_bound **out);

// tgi_bound_close frees the binding, but not the bound memory.
void tgi_bound_close(struct tgi_bound *b);

// tgi_bound_option sets a run option.
char *tgi_bound_option(struct tgi_bound *b, const char *key, const char *value);

// tgi_bound_bind binds a tensor until another of the name is bound.
char *tgi_bound_bind(struct tgi_bound *b, const struct tgi_tensor *tensor);

// tgi_bound_terminate ends the run in progress, and all later ones, at its next node. It may be called from any thread
// until the binding is closed.
char *tgi_bound_terminate(struct tgi_bound *b);

// tgi_bound_run runs the model on the bound tensors.
char *tgi_bound_run(struct tgi_bound *b);

// tgi_pages_map returns zeroed memory that is backed on first touch, or null.
void *tgi_pages_map(size_t bytes);
void tgi_pages_unmap(void *pages, size_t bytes);

// tgi_pages_large asks the system to back memory with pages of 2 MB, if it has them.
void tgi_pages_large(void *pages, size_t bytes);

// tgi_heap_configure makes glibc's malloc always return large allocations to the system when they are freed.
// It does nothing with other C libraries.
void tgi_heap_configure(void);

// tgi_heap_trim returns free memory between allocations to the system.
void tgi_heap_trim(void);

// tgi_operators returns the null-terminated list of custom operators.
const struct tgi_custom_op *const *tgi_operators(void);

// tgi_cuda_operators returns those for CUDA devices.
const struct tgi_custom_op *const *tgi_cuda_operators(void);

#endif
