package llm

// PluginCall names a plugin in one request.
type PluginCall struct {
	Name string
	// Params is a JSON object in the plugin's own terms; nil is {}.
	Params []byte
}

// GrammarCall is a grammar in one request: what every text of the reply is held to.
type GrammarCall struct {
	// Field is where the client wrote it, for messages.
	Field string
	// Plugin is the one that compiles it; empty for the first that knows Language.
	Plugin string
	// Language of Source; empty for Plugin's own.
	Language string
	// Source is the grammar, UTF-8.
	Source []byte
	// Params is a JSON object in the plugin's own terms; nil is {}.
	Params []byte
}

// Skip is a plugin that failed and without which a request went on.
type Skip struct {
	Plugin, Reason string
	// Outline is Reason without what the plugin itself said.
	Outline string
}

// UsedPlugin is a plugin that took part in a request.
type UsedPlugin struct {
	// Name is what requests call it, Use the kind that it was used as.
	Name, Use string
	// Version is what the module says of itself, SHA256 the module's checksum in hex.
	Version, SHA256 string
	// Config is a checksum of what its operator configured that nobody without a key of the server can make; empty for
	// nothing.
	Config string
}

// Dropped is something that a grammar, or a tool, asks for and that the reply is not
// held to.
type Dropped struct {
	// Pointer leads to it in the source.
	Pointer string
	// Keyword is its name, Reason why it is left out.
	Keyword, Reason string
}
