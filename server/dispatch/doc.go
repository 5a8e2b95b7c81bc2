// Package dispatch sends each request to the model that it names.
//
// A server of several models has one set of routes. Behind each of them stands
// the dispatcher: it finds the name in the request, has the model's own routes
// handed over for as long as the request runs, and lets the one at the same place
// answer. Which models there are, who may use them, and what a name means that is
// no model's, is the business of Models.
//
// The name is, in this order:
//
//   - the value of the query parameter model;
//   - the part of the path that is called model_name, if a model has that name:
//     KServe's clients must name something, and TGI takes anything;
//   - the member model at the top of a body that is a JSON object.
//
// A name that is missing, empty, null or no text means the default model. What is
// wrong with a body is for the handler to say, in the words of its API.
//
// The reasons behind it: docs/rationale/model-manager.md.
package dispatch
