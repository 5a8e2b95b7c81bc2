// Package quant quantises rows of float weights to the blocks of 4-bit or 8-bit integers that
// ONNX Runtime's MatMulNBits reads, and measures the loss: the error of the weights, and the
// change of a model's predictions. Format.Rows runs goroutines on all processors and awaits
// them.
//
// The rule is that of MLAS (ONNX Runtime's kernels): symmetric blocks with a signed scale. The
// element of largest magnitude maps to the lowest code (-8 or -128), so the whole asymmetric
// range of two's complement is used, and the step is max/8 instead of the usual max/7.5 or
// max/7. Codes are stored with an offset of 8 or 128, the operator's default zero point.
//
// The reasons behind it: docs/rationale/models.md.
package quant
