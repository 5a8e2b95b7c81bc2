// libcublas.so.13: products are counted.
#include "state.h"

int cublasCreate_v2(void **handle) { *handle = (void *)16; return 0; }

#define PRODUCT(name) int name(void) { COUNT(products, 1); return 0; }
PRODUCT(cublasDgemmBatched) PRODUCT(cublasDgemmStridedBatched) PRODUCT(cublasDgemm_v2) PRODUCT(cublasGemmBatchedEx)
PRODUCT(cublasGemmEx) PRODUCT(cublasGemmStridedBatchedEx) PRODUCT(cublasSgemmBatched)
PRODUCT(cublasSgemmStridedBatched) PRODUCT(cublasSgemm_v2)

#define NOTHING(name) int name(void) { return 0; }
NOTHING(cublasDcopy_v2) NOTHING(cublasDestroy_v2) NOTHING(cublasDgeam) NOTHING(cublasDgetrfBatched)
NOTHING(cublasDgetriBatched) NOTHING(cublasGetMathMode) NOTHING(cublasGetStatusName) NOTHING(cublasGetStatusString)
NOTHING(cublasScopy_v2) NOTHING(cublasSetMathMode) NOTHING(cublasSetStream_v2) NOTHING(cublasSgeam)
NOTHING(cublasSgetrfBatched) NOTHING(cublasSgetriBatched) NOTHING(cublasSscal_v2)
