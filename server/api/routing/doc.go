// Package routing serves what routers ask of the servers behind them: GET /v1/loads, /server_info and /model_info
// as SGLang has them, the latter two under their old names /get_server_info and /get_model_info too, and GET /version
// as vLLM has it.
//
// Routers find out by these what kind of server they have before them. SGLang's model gateway takes one with /version
// for vLLM, whose load it reads from the gauges of /metrics, and otherwise one with /server_info for SGLang.
//
// Loads are those of the whole server, as one data-parallel rank: routers choose a server, not a model in it. No reply
// names files of the machine: a model's path is its name.
package routing
