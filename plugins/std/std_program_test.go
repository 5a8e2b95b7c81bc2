package std_test

import "tgi/plugins/check"

func init() {
	cases["best-of-judge"] = []check.Case{
		{},
		{Params: `{"n":3,"temperature":0.5,"question":"?","yes":"y","no":"n"}`},
		{Params: `{"n":0}`, Refused: true},
		{Params: `{"n":33}`, Refused: true},
		{Params: `{"x":1}`, Refused: true},
	}
	cases["vote"] = []check.Case{
		{},
		{Params: `{"n":3,"marker":"e"}`},
		{Params: `{"n":33}`, Refused: true},
		{Params: `{"x":1}`, Refused: true},
	}
	cases["json-repair"] = []check.Case{
		{},
		{Params: `{"schema":{"type":"object"},"tries":1,"held":2}`},
		{Params: `{"tries":65}`, Refused: true},
		{Params: `{"x":1}`, Refused: true},
	}
	cases["budget-then-answer"] = []check.Case{
		{},
		{Params: `{"budget":3,"end":" the","hint":"e"}`},
		{Params: `{"budget":0}`, Refused: true},
		{Params: `{"end":7}`, Refused: true},
		{Params: `{"x":1}`, Refused: true},
	}
}
