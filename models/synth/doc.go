// Package synth writes checkpoints with the exact shape of a public model and random weights,
// so that speed can be measured without a download. The files load like any Hugging Face
// folder: the tokenizer splits text into bytes and fills the rest of its vocabulary with
// made-up words, which the model then generates. Its caller is the command `tgi model synth`. Write
// draws random numbers on all processors and awaits these goroutines.
package synth
