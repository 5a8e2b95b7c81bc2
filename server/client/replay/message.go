package replay

import "encoding/json"

// message is what all forms of replies and events have, as far as it says what was generated.
type message struct {
	// TGI's
	GeneratedText *string `json:"generated_text"`
	Token         *token
	Details       *struct {
		Receipt json.RawMessage
		Tokens  []token
		ends
		Best []struct {
			Text   string `json:"generated_text"`
			Tokens []token
			ends
		} `json:"best_of_sequences"`
	}
	// OpenAI's
	Choices []struct {
		Index   int
		Text    string
		Message *said
		Delta   *said
		ends
	}
	Receipts json.RawMessage
	Receipt  json.RawMessage
	// Response is that of an event of responses, or a text: Ollama's, or the generate API's.
	Response json.RawMessage
	// Ollama's
	Message  json.RawMessage
	Thinking string
	Done     json.RawMessage `json:"done_reason"`
	// Vertex AI's
	Predictions []string
	// KServe's
	Outputs []struct{ Data json.RawMessage }
	// Anthropic's and OpenAI's responses
	Content []part
	Output  []item
	messageEnd
	responseEnd
	Error json.RawMessage
	// Type is that of an event of theirs.
	Type string
}

// token is one of TGI's.
type token struct {
	Text    string
	Special bool
}

// said is what a choice says.
type said struct {
	Content, Reasoning, Thinking, Refusal *string
	// ReasoningContent is what some servers call Reasoning.
	ReasoningContent *string `json:"reasoning_content"`
	ToolCalls        []struct {
		Index    *int
		Function function
		Custom   struct{ Name, Input string }
	} `json:"tool_calls"`
	FunctionCall *function `json:"function_call"`
	MCPCalls     []mcpCall `json:"mcp_calls"`
}

type function struct {
	Name      string
	Arguments written
}

// part is a piece of content.
type part struct {
	Type, Text, Thinking, Refusal, Name string
	Input                               object
	// Those of calls of tools of MCP servers.
	ID      string
	Server  string          `json:"server_name"`
	Use     string          `json:"tool_use_id"`
	Content json.RawMessage // of what one came to
}

// item is one of the output of responses.
type item struct {
	Type, Name       string
	Content, Summary []part
	Arguments        written
	Input            written // of a custom tool
	Server           string  `json:"server_label"`
	mcpOutput
}
