package guest

// Rule is one thing that a guest must keep to.
type Rule struct {
	// ID names the rule in reports.
	ID string
	// Text says what must hold.
	Text string
	// Source is where the contract says so: the name in sdk/abi.
	Source string
}

// Rules is the table of all rules.
var Rules = []Rule{
	{"marker", "the version of the contract is exported", "abi.Marker"},
	{"memory", "the memory is exported as \"memory\"", "abi.Memory"},
	{"export", "each export of the common part and of the kinds served has the signature wanted",
		"abi.Common, abi.Forms"},
	{"export-unknown", "no other export begins with tgi_", "abi.ReservedPrefix"},
	{"import", "imports are those of the contract", "abi.Imports"},
	{"trap", "no export traps on what the host may hand over", "abi, Faults"},
	{"text", "a returned text lies in memory, is UTF-8 and not too long", "abi.Pack, abi.MaxDescription"},
	{"describe", "the description is a JSON object with name and kinds", "abi.Common, tgi_describe"},
	{"registered", "at least one kind is registered, and so is each that the description names",
		"abi.Common, tgi_describe; abi.Forms"},
	{"describe-values",
		"modes, needs, candidates and languages of the description are ones that exist and fit together",
		"abi.ModeNames, abi.NeedsTopK"},
	{"describe-same", "the description does not change", "abi.Common, tgi_describe"},
	{"alloc", "room lies in memory, is aligned to 16 and shared with nothing", "abi.Common, tgi_alloc"},
	{"alloc-none", "room that cannot be had is answered by 0", "abi.Common, tgi_alloc"},
	{"init", "the configuration is accepted", "abi.Common, tgi_init"},
	{"validate", "parameters are accepted or refused as the case says", "abi.Common, tgi_validate"},
	{"begin",
		"begin refuses what validate refuses (kinds template, tools and grammar are not asked then) and accepts what it accepts", "abi.Logits, tgi_logits_begin"},
	{"step-room", "the step struct lies in memory, is aligned to 16 and stays where it is",
		"abi.Logits, tgi_logits_step"},
	{"status", "process succeeds, or fails with a text", "abi.StatusFailed"},
	{"mode", "the mode exists and was declared", "abi.ModePass"},
	{"out", "the arrays of a result lie in memory, are aligned to 4 and have the count that the mode wants",
		"abi.StepOut"},
	{"id", "ids are in the vocabulary", "abi.ModePass"},
	{"number", "no logit or bias is NaN or +Inf", "abi.ModePass"},
	{"dead-end", "some token stays allowed", "abi.ModePass"},
	{"flags", "flags exist, were declared and fit the mode", "abi.FlagOnly"},
	{"temperature", "the temperature was declared and is NaN, 0 or a finite positive number", "abi.StepTemperature"},
	{"force", "forced tokens were declared, are in the vocabulary and not too many", "abi.StepForce"},
	{"view-once", "an id stands in a view once", "abi.ModeView"},
	{"overrun", "nothing is written behind the rooms of view, row, candidates and piece", "abi, The step struct"},
	{"sampler-index", "the index is that of a candidate", "abi.Sampler"},
	{"guess", "a guess fits the room, and its tokens are in the vocabulary", "abi.Draft"},
	{"rendered",
		"the result of render and its text lie in memory, the result is aligned to 4, the text is UTF-8 and not too long, and of a render that failed it says why", "abi.RenderedSize"},
	{"spans",
		"spans lie in memory, are aligned to 4, not too many, rise without overlapping, and keep to the borders of characters", "abi.SpanSize"},
	{"forge", "a special token in a message is data in the rendered text", "abi.RenderedSize"},
	{"events", "events lie in memory, are aligned to 4 and not too many, and their texts together are not too long",
		"abi.EventSize, abi.MaxEvents, abi.MaxEcho"},
	{"event",
		"an event is of a kind that exists, fields that the kind does not use are 0, and texts lie in memory, are UTF-8 and not too long", "abi.EventContent"},
	{"event-order",
		"calls are numbered as they begin, one is open at a time, nothing but its arguments comes in between, and none is left open", "abi.EventSize"},
	{"arguments", "the arguments of a call that ended are a JSON object", "abi.EventSize"},
	{"split", "the same text gives the same events however it is cut into pieces", "abi.Tools, tgi_tools_feed"},
	{"constraint",
		"the result of constraint and its texts lie in memory, the result is aligned to 4, and the text is nothing or a JSON object of a language, a source and what comes with them; one that failed says why", "abi.ToolsOptional"},
	{"compiled",
		"the result of compile and its texts lie in memory, the result is aligned to 4, the grammar has the form of plugins/grammar/ir, and a compile that failed says why", "abi.CompiledSize"},
	{"notes", "what was left out is a JSON array of objects of strings", "abi.CompiledSize"},
	{"accept", "a token that the mask allows is accepted", "abi.GrammarSteps"},
	{"mask", "a mask is written as a whole, allows some token, and is the same when it is asked for again",
		"abi.GrammarSteps"},
	{"key", "states with the same key have the same mask and the same forced tokens", "abi.GrammarSteps"},
	{"verdict", "the verdict and its flags exist and were declared", "abi.VerdictRelease"},
	{"position", "the position of a verdict is one where it can apply; at the end nothing is held",
		"abi.VerdictRelease"},
	{"edits",
		"edits lie in memory, are aligned to 4 and no more than may be, are in the order of the text, of whole characters that are held, and their words are UTF-8",
		"abi.FlagEdits"},
	{"hold", "no more tokens are held back than the description says", "abi.Guard"},
	{"restored", "what the description says that is kept of a sequence is true", "abi.StateNone"},
	{"deterministic", "the same calls with the same seed give the same results", "abi.Imports, rand_u64"},
	{"fresh", "a sequence finds nothing of the one before", "abi, Life"},
	{"clone", "a clone goes on as its original does", "abi, Life"},
	{"steady", "memory does not grow with the steps of a short sequence", "abi, Life"},
}

func ruleByID(id string) Rule {
	for _, r := range Rules {
		if r.ID == id {
			return r
		}
	}
	panic("BUG: no rule " + id)
}
