// Package dispatch finds the model that a request names, and says what APIs may ask
// of a model.
//
// The APIs are built once, whichever models there are. A handler reads its request,
// calls Use with the name in the body, and gets a Model for as long as it answers. Which
// models there are, who may use them, and what a name means that is no model's, is the
// business of Models.
//
// The name is, in this order:
//
//   - the value of the query parameter model;
//   - the part of the path that is called model_name, if a model has that name:
//     KServe's clients must name something, and TGI takes anything;
//   - the member model of a body that is a JSON object.
//
// A name that is missing, empty or null means the default model.
//
// The reasons behind it: docs/rationale/model-manager.md.
package dispatch
