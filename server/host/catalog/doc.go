// Package catalog says, without serving, what a server of some settings would have: the models of the models folder and
// of the settings, what each of them is, the plugins, and whether each model starts. Its types are what the command
// line prints as JSON: fields may be added, none is renamed.
package catalog
