package server

// Kind says what went wrong, so that every API finds its own status and text for it.
type Kind uint8

// Kinds of errors.
const (
	// KindInternal is every error that no other kind is for. Its text is for the log.
	KindInternal Kind = iota
	// Of the request: its media type, its size, its transport, its JSON and its fields.
	KindMediaType
	KindTooLarge
	KindBrokenBody
	KindSyntax
	KindShape
	KindInvalid
	// KindTooLong: prompt and output do not fit.
	KindTooLong
	// KindTemplate: the conversation has no prompt.
	KindTemplate
	// Of the route, and of the key.
	KindUnknownRoute
	KindWrongMethod
	KindProtocol
	KindHeaderTooLarge
	KindUnauthorized
	KindForbidden
	// Of the model.
	KindUnknownModel
	KindModelForbidden // or of a plugin
	KindModelLoading
	KindModelStopped
	KindModelMemory
	// KindWrongTask: the model is for something else.
	KindWrongTask
	// Of the server: too many requests or connections, not yet ready, about to end, ill.
	KindOverloaded
	KindTooManyConnections
	// KindRateLimited: a limit of the key.
	KindRateLimited
	KindServerLoading
	KindDraining
	KindUnhealthy
	// Of a generation that began.
	KindIncomplete
	KindIncompleteStream
	KindBackend
	KindPluginFailed
	KindClosed
	// KindCanceled: the client left.
	KindCanceled
	// Of plugins that administrators upload.
	KindUnknownPlugin
	KindPluginConfigured
	KindPluginRefused
	KindNoRoom
	KindModuleType
	KindModuleSize
)

// OfKey reports whether the request's key may not have what was asked for: a model, a plugin, or so much of it.
func (k Kind) OfKey() bool { return k == KindModelForbidden || k == KindRateLimited }
