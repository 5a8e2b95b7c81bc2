package std_test

import (
	"maps"

	"tgi/plugins/check"
)

func init() {
	maps.Copy(cases, map[string][]check.Case{
		"banned-strings": {
			{},
			{Params: `{"strings":["then","delve"]}`},
			{Params: `{"strings":["WELL","é"],"ignore_case":false,"whole_word":true,"depth":3}`},
			{Config: `{"strings":["the"]}`, Params: `{"depth":16}`},
			{Params: `{"strings":"a"}`, Refused: true},
			{Params: `{"strings":[""]}`, Refused: true},
			{Params: `{"depth":17}`, Refused: true},
			{Params: `{"words":["a"]}`, Refused: true},
		},
		"redact": {
			{},
			{Params: `{"patterns":["email"],"strings":["then"],"ignore_case":true,"with":"***"}`},
			{Config: `{"patterns":[],"strings":["Well"]}`},
			{Params: `{"patterns":["phone"]}`, Refused: true},
			{Params: `{"strings":[""]}`, Refused: true},
			{Params: `{"mask":"x"}`, Refused: true},
		},
		"loop-breaker": {
			{},
			{Params: `{"tokens":4,"rounds":2}`},
			{Config: `{"period":1}`, Params: `{"tokens":2}`},
			{Params: `{"rounds":1}`, Refused: true},
			{Params: `{"period":101}`, Refused: true},
			{Params: `{"n":1}`, Refused: true},
		},
	})
}
