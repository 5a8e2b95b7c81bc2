package hf

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdapterConfig: ranks and scales of modules, as PEFT has them.
func TestAdapterConfig(t *testing.T) {
	const q, other = "model.layers.3.self_attn.q_proj", "model.layers.13.mlp.up_proj"
	for text, want := range map[string]struct {
		module string
		rank   int
		scale  float64
	}{
		`{"peft_type":"LORA","r":8}`:                                                      {q, 8, 1},
		`{"peft_type":"LORA","r":8,"lora_alpha":16}`:                                      {q, 8, 2},
		`{"peft_type":"LORA","r":16,"lora_alpha":16,"use_rslora":true}`:                   {q, 16, 4},
		`{"peft_type":"LORA","r":8,"rank_pattern":{"q_proj":4}}`:                          {q, 4, 2},
		`{"peft_type":"LORA","r":8,"rank_pattern":{"v_proj":4}}`:                          {q, 8, 1},
		`{"peft_type":"LORA","r":8,"rank_pattern":{"layers.3.*":4}}`:                      {q, 4, 2},
		`{"peft_type":"LORA","r":8,"rank_pattern":{"layers.3.*":4} }`:                     {other, 8, 1},
		`{"peft_type":"LORA","r":8,"rank_pattern":{"up_proj":2,".*proj":4}}`:              {other, 2, 4},
		`{"peft_type":"LORA","r":8,"rank_pattern":{".*proj":4,"up_proj":2}}`:              {other, 4, 2},
		`{"peft_type":"LORA","r":8,"alpha_pattern":{"up_proj":2}}`:                        {other, 8, 0.25},
		`{"peft_type":"LORA","r":9,"lora_alpha":3,"use_rslora":true,"rank_pattern":null}`: {q, 9, 1},
	} {
		c, err := ParseAdapterConfig([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if rank, scale := c.Of(want.module); rank != want.rank || math.Abs(scale-want.scale) > 1e-12 {
			t.Errorf("%s: rank %d, scale %g of %s, want %+v", text, rank, scale, want.module, want)
		}
	}
}

// TestAdapterConfigRefuses: what PEFT would compute otherwise is refused by the name of its key.
func TestAdapterConfigRefuses(t *testing.T) {
	many := make([]string, maxPatterns+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"a%d":1`, i)
	}
	for more, want := range map[string]string{
		`,"peft_type":"LOHA"`:                               "peft_type",
		`,"r":0`:                                            "r: want an integer from 1 to 1024, got 0",
		`,"r":1025`:                                         "r: want an integer from 1 to 1024, got 1025",
		`,"r":"8"`:                                          "r: ",
		`,"lora_alpha":"x"`:                                 "lora_alpha",
		`,"bias":"all"`:                                     `bias: is "all": biases of adapters are not supported`,
		`,"use_dora":true`:                                  "use_dora: is true: DoRA is not supported",
		`,"modules_to_save":["lm_head"]`:                    "modules_to_save",
		`,"layer_replication":[[0,4],[2,5]]`:                "layer_replication",
		`,"trainable_token_indices":[1]`:                    "trainable_token_indices",
		`,"target_modules":7`:                               "target_modules: want a list of names or an expression, got 7",
		`,"target_modules":"(("`:                            "is not a regular expression that Go can read",
		`,"layers_to_transform":"all"`:                      "layers_to_transform: want a number or a list of numbers",
		`,"lora_alpha":null`:                                "lora_alpha: is null, want a number",
		`,"init_lora_weights":"pissa_niter_4"`:              "init_lora_weights",
		`,"rank_pattern":{"q_proj":0}`:                      `rank_pattern: "q_proj": want a number from 1 to 1024`,
		`,"rank_pattern":{"(":4}`:                           "is not a regular expression that Go can read",
		`,"rank_pattern":[]`:                                "rank_pattern: want an object",
		`,"rank_pattern":{` + strings.Join(many, ",") + `}`: "rank_pattern: has more than 4096 entries",
		`,"alpha_pattern":{"((a{1000}){1000}){1000}":1}`:    "is not a regular expression",
	} {
		text := `{"peft_type":"LORA","r":8` + more + `}`
		if strings.HasPrefix(more, `,"peft_type"`) || strings.HasPrefix(more, `,"r":`) { // once each
			text = `{` + strings.TrimPrefix(more, ",") + `,"peft_type":"LORA"}`
			if strings.HasPrefix(more, `,"peft_type"`) {
				text = `{` + strings.TrimPrefix(more, ",") + `,"r":8}`
			}
		}
		_, err := ParseAdapterConfig([]byte(text))
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s: %v\nwant %s", text, err, want)
		}
	}
	for _, text := range []string{"", "[]", "null", `{"r":8}`, `{"peft_type":"LORA"}`} {
		if _, err := ParseAdapterConfig([]byte(text)); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSelectedModules: what an adapter changes is chosen as PEFT chooses it.
func TestSelectedModules(t *testing.T) {
	const q0, q1 = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"
	for more, want := range map[string][3]bool{ // q0, q1, lm_head
		``:                                {true, true, true},
		`,"target_modules":["q_proj"]`:    {true, true, false},
		`,"target_modules":["proj"]`:      {false, false, false},
		`,"target_modules":"all-linear"`:  {true, true, true},
		`,"target_modules":".*\\.0\\..*"`: {true, false, false},
		`,"target_modules":["q_proj","lm_head"],"layers_to_transform":1`:   {false, true, false},
		`,"target_modules":["q_proj"],"layers_to_transform":[0,1]`:         {true, true, false},
		`,"target_modules":["q_proj"],"exclude_modules":["0.self_attn.q"]`: {true, true, false},
		`,"target_modules":["q_proj"],"exclude_modules":".*layers.0.*"`:    {false, true, false},
	} {
		c, err := ParseAdapterConfig([]byte(`{"peft_type":"LORA","r":8` + more + `}`))
		if err != nil {
			t.Errorf("%s: %v", more, err)
			continue
		}
		if got := [3]bool{c.Selects(q0), c.Selects(q1), c.Selects("lm_head")}; got != want {
			t.Errorf("%s: %v, want %v", more, got, want)
		}
	}
}

func FuzzAdapterConfig(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "adapters", "*", AdapterConfigFile))
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"peft_type":"LORA","r":8,"rank_pattern":{"(?i)x|y":4},"alpha_pattern":{"":-1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseAdapterConfig(data)
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Errorf("error %v does not wrap ErrConfig", err)
			}
			return
		}
		rank, scale := c.Of("model.layers.0.mlp.up_proj")
		if rank < 1 || rank > MaxRank || math.IsNaN(scale) || math.IsInf(scale, 0) {
			t.Errorf("rank %d, scale %g", rank, scale)
		}
	})
}
