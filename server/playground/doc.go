// Package playground owns the pages that a browser gets at "/": chat, models, plugins and the engine. They are files of
// this package, plain modules of JavaScript without a build step; they ask this server and nobody else, by the routes
// that every client has, and hold no state here.
package playground
