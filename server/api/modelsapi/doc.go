// Package modelsapi is Jan's models API over the models that the server knows:
// it lists, starts, stops, downloads, imports and deletes them. It owns the
// routes, the shapes of their replies and the statuses; what models there are
// and what becomes of them is the business of Models.
//
//	GET      /v1/models                  all; ?filter=all|running|downloaded|downloading
//	GET      /v1/models/{id}             one
//	PUT|POST /v1/models/{id}/start|stop  202 while it goes on, 200 when it is so already
//	POST     /v1/models/start|stop       the same; the body names the model: {"model":…}
//	POST     /v1/models/pull             begin a download: {"model":…,"id":…,"name":…}
//	GET      /v1/models/download/{id}    the same for a model by its id
//	DELETE   /v1/models/pull             end a download: {"taskId":…} or {"model":…}
//	POST     /v1/models/import           {"model":…,"modelPath":…,"name":…,"option":"symlink"|"copy"}
//	DELETE   /v1/models/{id}             remove the files
//
// Ids may hold slashes, plain or as %2F. Reading needs a key with the scope
// models, everything else one with the scope admin. The ids "pull" and those
// that begin with "download/" would be hidden by routes; CheckID refuses them.
// Every other id is reachable, "start" and "a/stop" too.
//
// # The document and OpenAI
//
// Replies satisfy the schemas of Jan's document and are what OpenAI's clients
// expect: id, object, created and owned_by come first, the document's members
// behind them. Where the two, or the document and the facts, do not meet:
//
//   - The document has two lists of states, and neither holds all of ours. The
//     member state is the nearest of the schema's own (left out of the list
//     where the document has null), and status is the exact one, everywhere.
//     Replies to start, stop, pull and import, whose state is any text, have
//     the exact one in both.
//   - source_url is required. A model that came from no URL has a URN,
//     urn:tgi:model:<id>, and not the path of its folder.
//   - The document bounds ctx_len, token_limit (4096), n_parallel (10) and
//     top_k (100). A value beyond them is left out, not bent; context_length
//     has the context whatever it is.
//   - The document requires "parameters" and describes "model_parameters". Both
//     are there and equal.
//   - metadata.engine must be nitro, openai or hf_inference. It is none of
//     them, and left out.
//   - Errors are OpenAI's object with error_type next to it, as on the other
//     routes, and message, which Jan's clients read. Their statuses are real
//     ones, where Jan's server says 200 and its successor 400.
//
// Members of bodies that these routes do not know are no error: clients send
// settings of other engines. A reply names them in warning, so that no one
// takes them for applied. Imports copy, whatever option says: a link would lead
// out of the models folder, and the reply warns who asked for one.
package modelsapi
