package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"tgi/models/hf"
	"tgi/models/store"
	"tgi/plugins"
	"tgi/plugins/std"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/embeddings"
	"tgi/server/host/bridge"
)

// errPairTemplate is why a chat template cannot be used for pairs.
var errPairTemplate = errors.New("the chat template must have the messages of the roles query and document once each " +
	"and as they are, and all else must not depend on them")

// errPairTime is why one that has the time cannot.
var errPairTime = errors.New("the chat template of a model that scores pairs must not depend on the time: it is rendered " +
	"when the model is loaded")

// pairTimes are the times that a template is rendered at. All their parts differ.
var pairTimes = [2]time.Time{time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC),
	time.Date(2030, 11, 22, 17, 48, 59, 8, time.UTC)}

// pairTemplate renders the chat template of a model that scores pairs, as sentence-transformers does for each pair: the
// instruction is the system's message, query and document have roles of these names. What the template puts around
// both is the same for all pairs, so it is rendered when the model is loaded.
func (f *manager) pairTemplate(ctx context.Context, cfg config.Config, in *instance) (*embeddings.Template, error) {
	ck := in.source.desc
	cfg.Model.Tools = config.None
	setup, err := chatSetupOf(cfg, filepath.Base(in.source.name), in.source.dir(), ck.Tokenizer)
	if err != nil {
		return nil, err
	}
	if setup.use.Template != config.TemplatePlugin {
		return nil, setup.keyError("template", errors.New("must be auto or a file *.jinja for a model that scores pairs"))
	}
	cache, err := store.Dir()
	if err != nil {
		return nil, err
	}
	set, err := plugins.Open(ctx, plugins.Options{
		Specs: setup.specs, Builtin: std.FS(), Vocabulary: bridge.Vocabulary(in.tokenizer, ck.Config.Vocab, nil),
		CacheDir: filepath.Join(cache, "plugins"), CacheBytes: int64(cfg.Plugins.CacheSize), MaxInstances: 2,
		Governor: f.governor, Turns: f.turns, Memory: f.memory, Compile: compileLimits(cfg.Plugins),
		Client: server.ClientID, Logs: f.pluginLogs, Log: f.log,
	})
	if err != nil {
		return nil, setup.keyError("template", fmt.Errorf("%w%s", err, bridge.Suggestion(err)))
	}
	defer set.Close()
	var t embeddings.Template
	first, second := [2]string{"\ue0f0query\ue0f1", "\ue0f2document\ue0f3"}, [2]string{" \ue0f2q \n", "\n\ue0f0d  "}
	for i, x := range []struct {
		pair [2]string
		now  time.Time
		no   error
	}{{first, pairTimes[0], errPairTemplate}, {second, pairTimes[0], errPairTemplate},
		{first, pairTimes[1], errPairTime}} {
		text, err := renderPair(ctx, set, setup.use, ck.Score, x.pair, x.now)
		if err != nil {
			return nil, setup.keyError("template", err)
		}
		split, ok := embeddings.Split(text, x.pair[0], x.pair[1])
		if !ok || i > 0 && split != t {
			return nil, setup.keyError("template", x.no)
		}
		t = split
	}
	return &t, nil
}

// renderPair returns the prompt of a query and a document at a time.
func renderPair(ctx context.Context, set *plugins.Set, use plugins.ChatPlugins, score *hf.LogitScore,
	pair [2]string, now time.Time) (string, error) {
	type part struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type message struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	var messages []message
	for _, m := range [][2]string{{"system", score.Instruction}, {"query", pair[0]}, {"document", pair[1]}} {
		var content any = m[1]
		if score.Structured {
			content = []part{{"text", m[1]}}
		}
		if m[1] != "" {
			messages = append(messages, message{m[0], content})
		}
	}
	request, err := json.Marshal(map[string]any{"messages": messages, "add_generation_prompt": score.GenerationPrompt,
		"continue_final_message": false, "now": now.Format(time.RFC3339Nano)})
	if err != nil {
		return "", err
	}
	chat, _, err := set.BindChat(ctx, nil, use)
	if err != nil {
		return "", err
	}
	defer chat.Close()
	r, err := chat.Render(ctx, request)
	return r.Text, err
}
