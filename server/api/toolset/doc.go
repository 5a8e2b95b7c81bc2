// Package toolset owns what a request offers of tools, and what it demands of them,
// for every API whose models call tools: chat, responses, messages. Each API reads
// its own JSON and adds tools here, as functions in the shape that templates read.
package toolset
