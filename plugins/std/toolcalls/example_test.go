package toolcalls_test

import (
	"encoding/json"
	"fmt"

	"tgi/plugins/std/toolcalls"
)

func Example() {
	name, _ := toolcalls.Detect("... {{ '<tool_call>' }} ...") // the model's chat template
	format, _ := toolcalls.Preset(name)
	p := toolcalls.New(format, toolcalls.Options{
		Tools: []toolcalls.Tool{{Name: "get_weather", Parameters: json.RawMessage(`{"type": "object"}`)}},
		Seed:  7,
	})
	var events []toolcalls.Event
	for _, piece := range []string{"I look.\n<tool", "_call>\n{\"name\": \"get_wea", "ther\", \"arguments\": {\"city\"",
		": \"Paris\"}}\n</tool_call>"} {
		events = append(events, p.Feed(piece)...)
	}
	for _, e := range append(events, p.Finish()...) {
		fmt.Println(e.Kind, e.Name+e.Text)
	}
	// Output:
	// content I look.
	// call get_weather
	// arguments {"city"
	// arguments : "Paris"}
	// end
}
