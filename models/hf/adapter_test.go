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
		`,"peft_type":"LOHA"`:                  "peft_type",
		`,"r":0`:                               "r: want an integer from 1 to 1024, got 0",
		`,"r":1025`:                            "r: want an integer from 1 to 1024, got 1025",
		`,"r":"8"`:                             "r: ",
		`,"lora_alpha":"x"`:                    "lora_alpha",
		`,"bias":"all"`:                        `bias: is "all": biases of adapters are not supported`,
		`,"use_dora":true`:                     "use_dora: is true: DoRA is not supported",
		`,"modules_to_save":["lm_head"]`:       "modules_to_save",
		`,"layer_replication":[[0,4],[2,5]]`:   "layer_replication",
		`,"trainable_token_indices":[1]`:       "trainable_token_indices",
		`,"init_lora_weights":"pissa_niter_4"`: "init_lora_weights",
		`,"rank_pattern":{"q_proj":0}`:         `rank_pattern: "q_proj": want a number from 1 to 1024`,
		`,"rank_pattern":{"(":4}`:              "is not a regular expression that Go can read",
		`,"rank_pattern":[]`:                   "rank_pattern: want an object",
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
