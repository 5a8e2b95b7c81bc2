// Package admin is the API for the operator of the server: it shows, uploads and
// removes plugins and has the settings read again.
//
// Its routes lie below /admin and need a key with the scope admin as bearer
// token; without any they answer 403. Answers are JSON, errors have the form
// of all others.
//
//	GET    /admin/plugins          {"plugins":[…]}, each with the canary beside it
//	GET    /admin/plugins/{name}   one of them
//	PUT    /admin/plugins/{name}   the body is the module; 201, or 200 in place of another
//	DELETE /admin/plugins/{name}   204
//	GET    /admin/plugins/{name}/versions   what is kept of an upload; POST .../rollback has an earlier version serve
//	GET    /admin/plugins/{name}/log   the last lines of the plugin
//	GET    /admin/plugins/{name}/canary   the version that gets a share of the requests; DELETE ends it
//	GET    /admin/canaries         those of all plugins
//	POST   /admin/plugins/{name}/canary/promote   it takes the place of what serves
//	GET    /admin/usage            what keys have used
//	GET    /admin/live             what the engines do now: Live
//	POST   /admin/reload           what came of it; 422 when a plugin failed
//
// The query of PUT holds the plugin's settings under the keys that they have in
// [[plugin]]: on_error, apply, limits.memory, limits.fuel_per_step,
// limits.fuel_per_request, limits.fuel_load, limits.time_per_step,
// limits.time_per_request, limits.time_load, limits.share, and config as a JSON
// object.
//
// The reasons behind it: docs/rationale/server.md.
package admin
