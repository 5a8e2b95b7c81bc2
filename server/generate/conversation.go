package generate

import (
	"strconv"
	"strings"
)

// Message is one turn of a conversation.
type Message struct {
	// Role is who speaks: system, developer, user, assistant or tool.
	Role string
	// HasText says that its text holds more than white space.
	HasText bool
	// Calls says that the turn calls tools.
	Calls bool
	// JSON is the message as a template plugin reads it: the client's object, in
	// which the arguments of calls are objects where they are the text of one, with
	// that text beside them.
	JSON []byte
	// Images are its pictures, in order. In JSON there is a part {"type":"image"} for each.
	Images []Image
}

// Choosing says which tools the model may or must call.
type Choosing uint8

const (
	// ChooseAuto leaves it to the model.
	ChooseAuto Choosing = iota
	// ChooseNone: no tool is called.
	ChooseNone
	// ChooseRequired: some tool is called.
	ChooseRequired
	// ChooseNamed: one tool is called, that of ToolChoice.Name.
	ChooseNamed
)

// ToolChoice is what a request demands of its tools.
type ToolChoice struct {
	// Mode is the demand.
	Mode Choosing
	// Name is the tool of ChooseNamed.
	Name string
}

// Demands reports whether a reply without a call breaks the choice.
func (c ToolChoice) Demands() bool { return c.Mode == ChooseRequired || c.Mode == ChooseNamed }

// Place says a pointer into Tools in the client's terms.
func (c *Conversation) Place(pointer string) string {
	for i, to := range c.ToolPlaces {
		rest, ok := strings.CutPrefix(pointer, "#/tools/"+strconv.Itoa(i)+"/function")
		if ok && (rest == "" || rest[0] == '/' || rest[0] == ':') {
			return to + rest
		}
	}
	return pointer
}

// allowsSeveral reports whether a turn may have more than one call: one that is demanded by
// name is one.
func (c *Conversation) allowsSeveral() bool { return c.Parallel && c.ToolChoice.Mode != ChooseNamed }

// Conversation is what a template turns into a prompt. Its slices of JSON are as
// the client wrote them and must not change while it is in use.
type Conversation struct {
	// Messages in their order, at least one.
	Messages []Message
	// Tools is a JSON array of those offered, each of OpenAI's shape; nil for none.
	Tools []byte
	// ToolNames are the names in Tools.
	ToolNames []string
	// ToolPlaces leads to each of Tools in the client's request, as "#/tools/1/function";
	// nil where they stand there as in Tools.
	ToolPlaces []string
	// NotEnforced is what the request asks for of Tools and their calls are not held to.
	NotEnforced []Dropped
	// Strict: the arguments of some of Tools must fit its schema.
	Strict bool
	// ToolChoice is what is demanded of Tools.
	ToolChoice ToolChoice
	// Parallel lets a turn have more than one call.
	Parallel bool
	// Answer is what the reply is held to where it is no call; nil for nothing.
	Answer *Grammar
	// Documents is a JSON array of texts to answer from; nil for none.
	Documents []byte
	// Kwargs is a JSON object of variables for the template; nil for none.
	Kwargs []byte
	// Continue ends the prompt where the last message ends, so that the model
	// continues it; nil does so if it is the assistant's and has text.
	Continue *bool
	// GenerationPrompt ends the prompt where the assistant's turn begins; nil
	// does so unless the last message is continued.
	GenerationPrompt *bool
	// Template is the name of one of the model's templates; empty for the default.
	Template string
}

// continues reports whether the model continues the last message.
func (c *Conversation) continues() bool {
	if c.Continue != nil {
		return *c.Continue
	}
	if c.GenerationPrompt != nil && *c.GenerationPrompt || len(c.Messages) == 0 {
		return false
	}
	last := &c.Messages[len(c.Messages)-1]
	return last.Role == "assistant" && !last.Calls && last.HasText
}
