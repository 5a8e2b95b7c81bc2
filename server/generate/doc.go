// Package generate owns one request's life between a dialect and the engine:
//
//	Draft -> permit -> check -> tokenize -> Request -> submit -> events -> Result
//
// It knows neither HTTP nor tensors. A dialect fills a Draft, calls
// Service.Start and reads the Run; the engine and the tokenizer are interfaces
// declared here.
package generate
