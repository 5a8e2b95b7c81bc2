// libcublasLt.so.13: products are counted.
#include "state.h"

#include <string.h>

int cublasLtCreate(void **handle) { *handle = (void *)16; return 0; }
int cublasLtMatmul(void) { COUNT(products, 1); return 0; }

// One algorithm, whose description has 96 bytes.
int cublasLtMatmulAlgoGetHeuristic(void *h, void *o, void *a, void *b, void *c, void *d, void *p, int n, char *result,
                                   int *got) {
	memset(result, 0, 96);
	*got = 1;
	return 0;
}

#define NOTHING(name) int name(void) { return 0; }
NOTHING(cublasLtDestroy) NOTHING(cublasLtMatmulAlgoConfigSetAttribute) NOTHING(cublasLtMatmulAlgoInit)
NOTHING(cublasLtMatmulDescCreate) NOTHING(cublasLtMatmulDescDestroy) NOTHING(cublasLtMatmulDescSetAttribute)
NOTHING(cublasLtMatmulPreferenceCreate) NOTHING(cublasLtMatmulPreferenceDestroy)
NOTHING(cublasLtMatmulPreferenceSetAttribute) NOTHING(cublasLtMatrixLayoutCreate)
NOTHING(cublasLtMatrixLayoutDestroy) NOTHING(cublasLtMatrixLayoutSetAttribute) NOTHING(cublasLtMatrixTransform)
NOTHING(cublasLtMatrixTransformDescCreate) NOTHING(cublasLtMatrixTransformDescDestroy)
