package guest

// Examples are the cases to run the example guests of sdk with, by name. The
// guests of one name must answer alike in every language; every-mode shows
// each mode, so they also exercise a host.
var Examples = map[string][]Case{
	"banned-and-boost": {
		{},
		{Params: `{"ban":[97,"b"," the"]}`},
		{Params: `{"ban":[97],"boost":{" the":2,"#98":-1.5}}`},
		{Params: `{"only":["a","</s>",98]}`},
		{Params: `{"only":["a","b"],"boost":{"a":1}}`},
		{Params: `{"ban":[259]}`, Refused: true},
		{Params: `{"boost":{"é":1}}`, Refused: true},
		{Params: `{"only":[]}`, Refused: true},
		{Params: `{"x":1}`, Refused: true},
	},
	"epsilon-greedy": {
		{},
		{Params: `{"epsilon":1,"margin":4}`},
		{Params: `{"epsilon":0.5}`},
		{Params: `{"epsilon":2}`, Refused: true},
		{Params: `{"margin":-1}`, Refused: true},
	},
	"every-mode": {
		{},
		{Params: `{"mode":"allow","ids":[97,98,200]}`},
		{Params: `{"mode":"deny","ids":[97,98,200]}`},
		{Params: `{"mode":"sparse","ids":[97,98,200],"bias":-2.5}`},
		{Params: `{"mode":"sparse","ids":[97,98,200],"only":true}`},
		{Params: `{"mode":"bitmask","ids":[97,98,258],"temperature":0.5}`},
		{Params: `{"mode":"topk","ids":[97,98,200],"bias":0.25}`},
		{Params: `{"mode":"row","ids":[97,98,200],"bias":20,"temperature":0}`},
		{Params: `{"force_at":3,"force":[1,2,3,258],"stop_at":17,"random":true}`},
		{Params: `{"fail_at":5,"pick":3}`},
		{Params: `{"ids":[259]}`, Refused: true},
		{Params: `{"mode":"none"}`, Refused: true},
	},
	"plain-chat": {
		{},
		{Params: `{"user":"Ann"}`},
		{Params: `{"user":""}`, Refused: true},
		{Params: `{"user":7}`, Refused: true},
		{Params: `{"x":1}`, Refused: true},
	},
	"call-lines": {
		{Texts: callLines},
		{Config: `{"word":"TOOL"}`, Texts: callLines},
	},
	"banned-strings": {
		{},
		{Params: `{"strings":["bb"," the","é"]}`},
		{Params: `{"strings":["x"]}`},
		{Params: `{"strings":[""]}`, Refused: true},
		{Params: `{"strings":[7]}`, Refused: true},
		{Params: `{"string":[]}`, Refused: true},
	},
	"picture": {
		{Sources: []Source{{"picture", "A-## @@@"}, {"picture", "é#"}, {"picture", "</s>"}}},
		{Params: `{"x":1}`, Refused: true},
	},
}

// Programs are those of the example guests of kind program. Their host has to offer contexts of a model.
var Programs = map[string][]Case{
	"think-then-answer": {
		{},
		{Params: `{"budget":4,"end":"</s>","hint":" the"}`},
		{Params: `{"budget":0}`, Refused: true},
		{Params: `{"end":""}`, Refused: true},
		{Params: `{"x":1}`, Refused: true},
	},
}

// callLines are texts in the format of call-lines.
var callLines = []string{
	"One.\nCALL get_time({\"place\": \"Zürich)\"})\nCALL get_time({})\nTwo CALL get_time({}) three\n",
	"TOOL get_time({\"n\": [1, {\"a\": null}]})",
	"CALL\nCALL get_time\nCALL get_time(7)\nCALL other({})\nCAL",
	"CALL get_time({\"place\"",
}
