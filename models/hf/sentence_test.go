package hf

import (
	"errors"
	"io/fs"
	"os"
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
	const pooling, normalize = "1_Pooling/config.json", "2_Normalize/config.json"
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

		{"bert", SentenceConfigFile, `{"max_seq_length":64,"do_lower_case":false,"unpad_inputs":true,"model_args":
			{"attn_implementation":"sdpa"},"processing_kwargs":{"chat_template":{"x":1}},"query_length":null}`, ""},
		{"bert", SentenceConfigFile, `{"modality_config":{` + text + `,"image":{"method":"get_image_features"}}}`, ""},
		{"bert", pooling, `{"word_embedding_dimension":32,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true}`,
			""},
		{"qwen3-rank", "", "", ""}, {"gemma", "", "", ""}, {"bert-modes", "", "", ""},
	} {
		fsys := withFile(t, c.folder, c.file, c.text)
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
