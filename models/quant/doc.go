// Package quant turns rows of float weights into the blocks of 4-bit or 8-bit
// integers that ONNX Runtime's MatMulNBits reads, and measures what that costs:
// the error of the weights, and the change of a model's predictions.
//
// The rule is MLAS's: symmetric blocks whose scale carries a sign. The element
// of largest magnitude maps to the lowest code (-8 or -128), so the whole
// asymmetric range of two's complement is used and the step is max/8 where the
// usual rule has max/7.5 or max/7. Codes are stored with an offset of 8 or 128,
// which is the operator's default zero point.
//
// The reasons behind it: docs/rationale/models.md.
package quant
