// Package host is the model manager: which models are loaded, from which settings, and for
// whom. It joins the runtime, the plugins and the server; with its package bridge it is the
// one place that imports all three.
//
// Open builds a server with its models, Serve listens as well. Inside,
//
//   - the manager knows all models, loads and unloads them by demand and memory (package
//     models/library/lifecycle decides which), hands them out to requests by name, and
//     carries out what the models API and the admin routes ask for;
//   - a loadedModel is one model that runs: its engine, its plugins, its routes;
//   - a pluginController has the plugins of one model and what its conversations get;
//   - a plan is what a model will take in memory, decided before it is loaded.
//
// # What is called a model
//
//	config.Model      the settings of one model
//	lifecycle.model   an entry of the roster: whether a model is loaded, and who uses it
//	managedModel      what the roster loads and stops: a loadedModel with its manager
//	loadedModel       a model that runs: instance, plugins, settings
//	instance          its tokenizer, backend and engine, without plugins
//	dispatch.Model    what the APIs see of it: a service, limits, names
//
// # Locks
//
// They are taken in this order, and each may be left out:
//
//  1. manager.reloading: while settings are read and taken over
//  2. pluginController.mu: while settings are taken over by one model
//  3. manager.uploading: while an upload is installed or removed
//  4. the lock of the folder of uploads, which other processes take too
//  5. the lock of the lifecycle's roster, which calls manager.observe with it
//  6. manager.mu: the maps and the settings of the manager; nothing slow is done with it
//
// # Goroutines
//
// Serve starts the listener and the watcher of settings, and awaits both. preload starts one
// that loads the models beside the default one; Server.Close awaits it. A loadedModel starts
// the watcher of its files; Stop awaits it. Those of engines, plugins and downloads belong to
// their packages.
//
// The reasons behind it: docs/rationale/model-manager.md.
package host
