package hf

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// withFile returns a folder of the goldens with a file of other text.
func withFile(t *testing.T, folder, name, text string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	from := os.DirFS("../testdata/embeddings/" + folder)
	err := fs.WalkDir(from, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, p)
		out[p] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if name != "" {
		out[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return out
}

// TestSentenceFilesRefused: what sentence-transformers' files say that would change the vectors is an error that names
// file, key and value; what does not change them is none.
func TestSentenceFilesRefused(t *testing.T) {
	const text = `"text":{"method":"forward","method_output_name":"last_hidden_state"}`
	const pooling, normalize, score = "1_Pooling/config.json", "2_Normalize/config.json", "1_LogitScore/config.json"
	const logits = `"text":{"method":"forward","method_output_name":"logits"}`
	const asked = `[{"path":"","type":"sentence_transformers.base.modules.transformer.Transformer"},{"path":
		"1_LogitScore","type":"sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}`
	for _, c := range []struct{ folder, file, text, want string }{
		// As sentence-transformers 6.2 saves a folder whose tokenizer has a chat template.
		{"bert", SentenceConfigFile, `{"modality_config":{` + text + `,"message":{"method":"forward",
			"method_output_name":"last_hidden_state","format":"flat"}},"module_output_name":"token_embeddings"}`,
			`sentence_bert_config.json: unusable model configuration: modality_config.message: {"method":"forward",`},
		{"qwen3-rank", SentenceConfigFile, `{"transformer_task":"sequence-classification","modality_config":{"message":{}}}`,
			"modality_config.message: {} is not supported: it puts each text into the chat template"},
		{"bert", SentenceConfigFile, `{"modality_config":{"image":{}}}`, "modality_config.text: is missing"},
		{"bert", SentenceConfigFile, `{"modality_config":{"text":{"method":"get_text_features"}}}`,
			`modality_config.text.method: "get_text_features" is not supported`},
		{"bert", SentenceConfigFile, `{"transformer_task":"fill-mask"}`, `transformer_task: "fill-mask" is not`},
		{"bert", SentenceConfigFile, `{"module_output_name":"sentence_embedding"}`, `module_output_name: "sentence_e`},
		{"bert", SentenceConfigFile, `{"processing_kwargs":{"text":{"max_length":8}}}`,
			`processing_kwargs.text: {"max_length":8} is not supported`},
		{"bert", SentenceConfigFile, `{"tokenizer_args":{"model_max_length":8}}`, "tokenizer_args.model_max_length: 8 is"},
		{"bert", SentenceConfigFile, `{"query_length":32}`, "query_length: 32 is unknown for Transformer"},
		{"bert", SentenceConfigFile, `{"tokenizer_name_or_path":"x"}`, `tokenizer_name_or_path: "x" is not supported`},
		{"bert", pooling, `{"pooling_mode":"mean","layers":[1]}`, "layers: [1] is unknown for Pooling"},
		{"bert", normalize, `{"module_input_name":"token_embeddings"}`, `module_input_name: "token_embeddings" is`},
		{"bert", ModulesFile, `[{"path":"","type":"custom_st.Transformer"},{"path":"1_Pooling","type":
			"sentence_transformers.models.Pooling"}]`, `module 0, custom_st.Transformer: is code of the folder's own`},

		{"qwen3-ask", score, `{"true_token_id":9999}`, "token 9999 is none of the model's 280"},
		{"qwen3-ask", score, `{"false_token_id":1}`, "true_token_id: is missing"},
		{"qwen3-ask", score, `{"true_token_id":1,"scale":2}`, "scale: 2 is unknown for LogitScore"},
		{"qwen3-ask", score, `{"true_token_id":1,"module_input_name":"x"}`, `module_input_name: "x" is not supported`},
		{"qwen3-ask", SentenceConfigFile, `{"transformer_task":"text-generation","modality_config":{` + logits + `}}`,
			"modality_config.message: is missing"},
		{"qwen3-ask", SentenceConfigFile, `{"transformer_task":"text-generation","modality_config":{` + logits +
			`,"message":{"format":"auto"}}}`, `modality_config.message.format: "auto" is not supported`},
		{"qwen3-ask", SentenceConfigFile, `{"transformer_task":"text-generation"}`, "modality_config: is missing"},
		{"qwen3-ask", SentenceConfigFile, `{"transformer_task":"text-generation","modality_config":{` + logits +
			`,"message":{"format":"flat"}},"processing_kwargs":{"chat_template":{"x":1}}}`,
			"processing_kwargs.chat_template.x: 1 is unknown"},
		{"qwen3-ask", ModulesFile, asked + `,{"path":"2_Normalize","type":"sentence_transformers.models.Normalize"}]`,
			"is not supported behind SpladePooling and LogitScore"},
		{"bert", ModulesFile, asked + `]`, "LogitScore needs a class ForCausalLM, not BertModel"},

		{"qwen3-ask", "", "", ""}, {"llama-ask", "", "", ""},
		{"bert", SentenceConfigFile, `{"max_seq_length":64,"do_lower_case":false,"unpad_inputs":true,"model_args":
			{"attn_implementation":"sdpa"},"processing_kwargs":{"chat_template":{"x":1}},"query_length":null}`, ""},
		{"bert", SentenceConfigFile, `{"modality_config":{` + text + `,"image":{"method":"get_image_features"}}}`, ""},
		{"bert", pooling, `{"word_embedding_dimension":32,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true}`,
			""},
		{"qwen3-rank", "", "", ""}, {"gemma", "", "", ""}, {"bert-modes", "", "", ""},
	} {
		fsys := withFile(t, c.folder, c.file, c.text)
		if c.folder == "bert" && strings.HasPrefix(c.text, asked) {
			fsys[score] = &fstest.MapFile{Data: []byte(`{"true_token_id":1}`)}
			fsys[SentenceConfigFile] = &fstest.MapFile{Data: []byte(`{"transformer_task":"text-generation",
				"module_output_name":"causal_logits","modality_config":{` + logits + `,"message":{"format":"flat"}}}`)}
		}
		if strings.HasSuffix(c.folder, "-rank") && c.file != "" {
			fsys[ModulesFile] = &fstest.MapFile{Data: []byte(`[]`)}
		}
		_, err := DescribeFS(fsys, c.folder)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrConfig) ||
			!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file)) {
			t.Errorf("%s %s %s: error %v, want %q", c.folder, c.file, c.text, err, c.want)
		}
	}
}

// TestEncoderWithTemplate: sentence-transformers puts texts into a chat template where a folder has no modules.json,
// and not where it has one that says nothing of messages.
func TestEncoderWithTemplate(t *testing.T) {
	fsys := withFile(t, "bert", ChatTemplateFile, "{{ messages }}")
	if _, err := DescribeFS(fsys, "bert"); err != nil {
		t.Error(err)
	}
	delete(fsys, ModulesFile)
	if _, err := DescribeFS(fsys, "bert"); !errors.Is(err, ErrConfig) ||
		!strings.Contains(err.Error(), ChatTemplateFile) {
		t.Errorf("error %v, want one of %s", err, ChatTemplateFile)
	}
	if _, err := DescribeFS(withFile(t, "qwen3-rank", ChatTemplateFile, "{{ messages }}"), "rank"); err != nil {
		t.Error(err)
	}
}

// TestAskedCheckpoint: a decoder with LogitScore scores with the rows of its head that the module names, asked by a
// template, which it needs; its module's file is one of those that are fetched and that a built model depends on.
func TestAskedCheckpoint(t *testing.T) {
	fsys := withFile(t, "qwen3-ask", "", "")
	c, err := DescribeFS(fsys, "asked")
	if err != nil {
		t.Fatal(err)
	}
	e, stage := c.Config.Encoder, c.Config.Encoder.Stages[0]
	if !e.Classifier || !e.Causal || e.Pooling != "lasttoken" || len(e.Labels) != 1 || len(stage.Rows) != 2 ||
		stage.Of != c.Config.Vocab || !strings.HasSuffix(stage.Tensor, "embed_tokens") || c.Sentence != nil ||
		!strings.HasPrefix(c.Score.Instruction, "Given a web search query") {
		t.Errorf("%+v %+v", e, c.Score)
	}
	if files := c.stageFiles(); !slices.Contains(files, "1_LogitScore/config.json") ||
		!slices.Contains(files, ModulesFile) {
		t.Errorf("a built model depends on %v", files)
	}
	if got := SentenceFiles([]string{"1_LogitScore/config.json", "2_Other/config.json"}); len(got) != 1 {
		t.Errorf("the files to fetch are %v", got)
	}
	if c, err = DescribeFS(withFile(t, "llama-ask", "", ""), "asked"); err != nil ||
		c.Config.Encoder.Stages[0].Tensor != "lm_head" || len(c.Config.Encoder.Stages[0].Rows) != 1 ||
		c.Score.Instruction != "" {
		t.Errorf("%+v %v", c.Score, err)
	}
	delete(fsys, ChatTemplateFile)
	if _, err := DescribeFS(fsys, "asked"); !errors.Is(err, ErrConfig) ||
		!strings.Contains(err.Error(), "with a chat template only") {
		t.Errorf("without a template: %v", err)
	}
}

// TestOlderSentenceFile: the length is also read from the file's older names.
func TestOlderSentenceFile(t *testing.T) {
	fsys := withFile(t, "roberta", "sentence_roberta_config.json", `{"max_seq_length":17}`)
	delete(fsys, SentenceConfigFile)
	c, err := DescribeFS(fsys, "roberta")
	if err != nil || c.Sentence.MaxLength != 17 {
		t.Fatalf("%+v, %v, want a length of 17", c, err)
	}
	if got := SentenceFiles([]string{"sentence_roberta_config.json", "other.json"}); len(got) != 1 {
		t.Errorf("the files to fetch are %v", got)
	}
}
