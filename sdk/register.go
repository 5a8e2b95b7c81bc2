package sdk

// Description returns how a plugin in one of [Languages] says what it is, for the error if it does not.
func Description(language string) string {
	switch language {
	case "go":
		return `in init, call plugin.Describe(plugin.Info{Name: "my-plugin", Version: "1.0.0"})`
	case "rust":
		return `in plugin!, write description: r#"{"name":"my-plugin","version":"1.0.0","kinds":[...]}"#,`
	case "c":
		return `TGI_PLUGIN("{\"name\":\"my-plugin\",\"version\":\"1.0.0\",\"kinds\":[...]}", TGI_NO_INIT)`
	case "as":
		return `call describe('{"name":"my-plugin","version":"1.0.0","kinds":[...]}')`
	}
	return ""
}

// Registration returns how a plugin in one of [Languages] registers a kind, for the error if it does not.
func Registration(language string) string {
	switch language {
	case "go":
		return "in init, call Register of the kind's package, for example logits.Register(uses, open)"
	case "rust":
		return "in plugin!, name the type that serves the kind, for example `logits: Sequence,`"
	case "c":
		return "below TGI_PLUGIN, write the macro of the kind, for example TGI_LOGITS(begin, process)"
	case "as":
		return `call the function of the kind, for example logits(begin), and export what the server calls: export * from "./tgi/exports/logits"`
	}
	return ""
}
