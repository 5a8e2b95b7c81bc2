package responses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"tgi/server/api/responses/store"
	"tgi/server/generate/generatetest"
)

// texts are those of the items of a page.
func texts(t *testing.T, rec *httptest.ResponseRecorder) (list []string) {
	t.Helper()
	for _, one := range object(t, rec)["data"].([]any) {
		i := one.(map[string]any)
		list = append(list, i["content"].([]any)[0].(map[string]any)["text"].(string))
	}
	return list
}

// TestConversation: a conversation's life, alone and with responses.
func TestConversation(t *testing.T) {
	chat := &generatetest.Chat{}
	s, _ := newServer(&generatetest.Engine{}, chat)
	c := object(t, ask(s, "POST", conversations, `{"metadata":{"a":"b"},"items":[{"role":"system","content":"Be brief"},`+
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}]}`))
	id := c["id"].(string)
	at := conversations + "/" + id
	if !strings.HasPrefix(id, "conv_") || c["object"] != "conversation" || fmt.Sprint(c["metadata"]) != "map[a:b]" {
		t.Errorf("got %v", c)
	}
	r := object(t, ask(s, "POST", path, `{"model":"m","input":"two","max_output_tokens":2,"conversation":"`+id+`"}`))
	if fmt.Sprint(r["conversation"]) != "map[id:"+id+"]" {
		t.Errorf("the response has %v", r["conversation"])
	}
	if got := chat.Requests()[0]; !strings.Contains(got, `"Be brief"`) || !strings.Contains(got, `"one"`) ||
		!strings.Contains(got, `"two"`) {
		t.Errorf("the template read %s", got)
	}
	said := r["output"].([]any)[0].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
	all := ask(s, "GET", at+"/items?order=asc", "")
	if got, want := texts(t, all), []string{"Be brief", "one", "two", said}; !slices.Equal(got, want) {
		t.Errorf("items are %q, want %q", got, want)
	}
	// A second response, streamed, by an object.
	ask(s, "POST", path, `{"model":"m","input":"three","stream":true,"max_output_tokens":2,"conversation":{"id":"`+id+`"}}`)
	page := object(t, ask(s, "GET", at+"/items?limit=2", ""))
	if page["has_more"] != true || len(page["data"].([]any)) != 2 {
		t.Errorf("the page is %v", page)
	}
	next := ask(s, "GET", at+"/items?limit=9&after="+page["last_id"].(string), "")
	if got := texts(t, next); !slices.Equal(got, []string{said, "two", "one", "Be brief"}) {
		t.Errorf("behind it are %q", got)
	}
	// What follows the first response knows what came before it, and nothing behind.
	ask(s, "POST", path, `{"model":"m","input":"other","max_output_tokens":2,"previous_response_id":"`+
		r["id"].(string)+`"}`)
	got := chat.Requests()
	if last := got[len(got)-1]; !strings.Contains(last, `"Be brief"`) || !strings.Contains(last, `"two"`) ||
		strings.Contains(last, `"three"`) {
		t.Errorf("the template read %s", last)
	}
	if got := texts(t, ask(s, "GET", path+"/"+r["id"].(string)+"/input_items?order=asc", "")); !slices.Equal(got,
		[]string{"Be brief", "one", "two"}) {
		t.Errorf("the first response read %q", got)
	}
	// Items of their own.
	output := r["output"].([]any)[0].(map[string]any)["id"].(string)
	refer := `{"items":[{"role":"user","content":"four"},{"type":"item_reference","id":"` + output + `x"}]}`
	if rec := ask(s, "POST", at+"/items", refer); rec.Code != http.StatusNotFound {
		t.Errorf("a reference to nothing: %d %s", rec.Code, rec.Body)
	}
	added := object(t, ask(s, "POST", at+"/items", `{"items":[{"role":"user","content":"four"}]}`))
	item := added["first_id"].(string)
	if one := object(t, ask(s, "GET", at+"/items/"+item, "")); one["id"] != item {
		t.Errorf("got %v", one)
	}
	if c := object(t, ask(s, "DELETE", at+"/items/"+item, "")); c["id"] != id {
		t.Errorf("got %v", c)
	}
	if rec := ask(s, "GET", at+"/items/"+item, ""); rec.Code != http.StatusNotFound {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if c := object(t, ask(s, "POST", at, `{"metadata":{"c":"d"}}`)); fmt.Sprint(c["metadata"]) != "map[c:d]" {
		t.Errorf("got %v", c)
	}
	if d := object(t, ask(s, "DELETE", at, "")); d["deleted"] != true || d["object"] != "conversation.deleted" {
		t.Errorf("got %v", d)
	}
	for _, target := range []string{at, at + "/items", at + "/items/x"} {
		if rec := ask(s, "GET", target, ""); rec.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
}

// TestConversationRefused: what is wrong is named, and what is another's is not there.
func TestConversationRefused(t *testing.T) {
	s, _ := newServer(&generatetest.Engine{}, &generatetest.Chat{})
	id := object(t, ask(s, "POST", conversations, ""))["id"].(string)
	at := conversations + "/" + id
	response := object(t, ask(s, "POST", path, `{"input":"x","max_output_tokens":1}`))["id"].(string)
	big := strings.Repeat("a", limits.MaxRecord)
	for _, c := range []struct {
		method, target, body, want string
		status                     int
	}{
		{"POST", path, `{"input":"x","conversation":"conv_none"}`, "conv_none", 404},
		{"POST", path, `{"input":"x","conversation":"` + response + `"}`, "Conversation with id", 404},
		{"POST", path, `{"input":"x","conversation":5}`, "conversation", 400},
		{"POST", path, `{"input":"x","conversation":"` + id + `","previous_response_id":"a"}`,
			"exclude each other", 400},
		{"POST", at + "/items", `{"items":[]}`, "`items` must have at least one item", 400},
		{"POST", at + "/items", `{"items":[` + strings.Repeat(`{"role":"user","content":"a"},`, 20) +
			`{"role":"user","content":"a"}]}`, "at most 20 items", 400},
		{"POST", at + "/items", `{"items":[{"type":"computer_call"}]}`, "computer_call", 400},
		{"POST", at + "/items", `{"items":[{"id":"i","role":"user","content":"a"},{"id":"i","role":"user",` +
			`"content":"a"}]}`, "has an item with the id 'i'", 400},
		{"POST", at + "/items", `{"items":[{"role":"user","content":"` + big + `"}]}`, "responses.max_response", 413},
		{"POST", at, `{"metadata":{"a":5}}`, "metadata", 400},
		{"GET", at + "/items?limit=0", "", "`limit` must be >= 1", 400},
		{"GET", at + "/items?after=x", "", "`after` names no item", 400},
		{"GET", at + "/items?order=up", "", "`order` must be asc or desc", 400},
		{"GET", conversations + "/" + response, "", "not found", 404},
		{"DELETE", conversations + "/x", "", "not found", 404},
		{"DELETE", conversations + "/a_b", "", "not found", 404},
		{"GET", path + "/" + id, "", "not found", 404},
		{"POST", path + "/compact", `{}`, "not compacted here", 404},
	} {
		rec := ask(s, c.method, c.target, c.body)
		if rec.Code != c.status || !strings.Contains(rec.Body.String(), c.want) ||
			!strings.HasPrefix(rec.Body.String(), `{"error":{"message":`) {
			t.Errorf("%s %s %.200s: %d %s, want %s", c.method, c.target, c.body, rec.Code, rec.Body, c.want)
		}
	}
	r := httptest.NewRequest("GET", at, nil)
	r.Header.Set("Authorization", "Bearer other")
	rec := httptest.NewRecorder()
	if s.ServeHTTP(rec, r); rec.Code != http.StatusNotFound {
		t.Errorf("another's: %d %s", rec.Code, rec.Body)
	}
}

// TestConversationTogether: of items that are added at the same time none is lost.
func TestConversationTogether(t *testing.T) {
	s, a := newServer(&generatetest.Engine{}, &generatetest.Chat{})
	var mu sync.Mutex
	n := 0
	a.name = func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprint("B", n)
	}
	id := object(t, ask(s, "POST", conversations, ""))["id"].(string)
	at := conversations + "/" + id
	var all sync.WaitGroup
	for k := range 6 {
		all.Go(func() {
			for {
				rec := ask(s, "POST", at+"/items", fmt.Sprintf(`{"items":[{"role":"user","content":"%d"}]}`, k))
				if rec.Code == http.StatusConflict {
					continue
				}
				if rec.Code != http.StatusOK {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
				return
			}
		})
	}
	all.Wait()
	got := texts(t, ask(s, "GET", at+"/items", ""))
	if slices.Sort(got); !slices.Equal(got, []string{"0", "1", "2", "3", "4", "5"}) {
		t.Errorf("items are %q", got)
	}
}

// TestConversationGone: a response whose conversation was deleted while it ran has none, and says so.
func TestConversationGone(t *testing.T) {
	e := &generatetest.Engine{Step: make(chan struct{})}
	s, _ := newServer(e, &generatetest.Chat{})
	id := object(t, ask(s, "POST", conversations, ""))["id"].(string)
	go func() {
		e.Step <- struct{}{} // it runs
		ask(s, "DELETE", conversations+"/"+id, "")
		close(e.Step)
	}()
	r := object(t, ask(s, "POST", path, `{"input":"x","max_output_tokens":20,"conversation":"`+id+`"}`))
	if v, ok := r["conversation"]; !ok || v != nil || r["status"] != "incomplete" {
		t.Errorf("the response is %v", r)
	}
}

// counting counts the records that are read at the same time by those who list.
type counting struct {
	store.Store
	gets int
}

func (c *counting) Get(ctx context.Context, o store.Owner, id string) ([]byte, error) {
	c.gets++
	return c.Store.Get(ctx, o, id)
}

// TestLongList: a page of a long chain reads what it shows and not all that came before, and holds a record at a time.
func TestLongList(t *testing.T) {
	s, a := newServer(&generatetest.Engine{}, &generatetest.Chat{})
	l := limits
	l.MaxOwnerRecords, l.MaxOwnerBytes, l.MaxBytes, l.MaxRecord = 1000, 64<<20, 64<<20, 1<<20
	kept := &counting{Store: store.NewMemory(l)}
	a.options.Store = kept
	o := store.OwnerOf("")
	const chain = 100
	text := strings.Repeat("x", 200<<10)
	for n := range chain {
		rec := record{Response: json.RawMessage(fmt.Sprintf(`{"status":"completed","output":[{"id":"msg_%d_0",`+
			`"type":"message","status":"completed"}]}`, n)),
			Input: []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"id":"msg_%d_i0","text":"%s"}`, n, text))}}
		if n > 0 {
			rec.Previous = fmt.Sprintf("resp_%d", n-1)
		}
		if err := a.put(t.Context(), o, fmt.Sprintf("resp_%d", n), &rec); err != nil {
			t.Fatal(err)
		}
	}
	at := path + fmt.Sprintf("/resp_%d/input_items?limit=3", chain-1)
	for query, want := range map[string]string{
		"": "msg_99_i0 msg_98_0 msg_98_i0", "&after=msg_98_i0": "msg_97_0 msg_97_i0 msg_96_0",
		"&order=asc": "msg_0_i0 msg_0_0 msg_1_i0", "&order=asc&after=msg_98_i0": "msg_98_0 msg_99_i0",
	} {
		kept.gets = 0
		rec := ask(s, "GET", at+query, "")
		var page struct {
			Data []struct{ ID string }
			More bool `json:"has_more"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil || rec.Code != http.StatusOK {
			t.Fatalf("%s: %d %.200s", query, rec.Code, rec.Body)
		}
		var ids []string
		for _, i := range page.Data {
			ids = append(ids, i.ID)
		}
		if got := strings.Join(ids, " "); got != want || page.More != (len(ids) == 3) {
			t.Errorf("%q: %s, more: %v, want %s", query, got, page.More, want)
		}
		if !strings.Contains(query, "asc") && kept.gets > 5 {
			t.Errorf("%q: %d records were read", query, kept.gets)
		}
	}
	if rec := ask(s, "GET", at+"&after=none", ""); rec.Code != http.StatusBadRequest {
		t.Errorf("after nothing: %d", rec.Code)
	}
	// Where all places are taken a list waits for none.
	var leave []func()
	for {
		free, err := a.gate.Enter("other")
		if err != nil {
			break
		}
		leave = append(leave, free)
	}
	for k := 0; ; k++ {
		free, err := a.gate.Enter(fmt.Sprint(k))
		if err != nil {
			break
		}
		leave = append(leave, free)
	}
	if rec := ask(s, "GET", at, ""); rec.Code != http.StatusTooManyRequests {
		t.Errorf("without a place: %d", rec.Code)
	}
	for _, free := range leave {
		free()
	}
	if err := (&lister{api: a, page: &pageOf{limit: 3}, of: o}).list(t.Context(), "resp_none"); !errors.Is(err,
		store.ErrNotFound) {
		t.Errorf("nothing: %v", err)
	}
}

// FuzzAdditions: a body of items is taken, and shown as JSON, or is refused.
func FuzzAdditions(f *testing.F) {
	f.Add(`{"items":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}],` +
		`"metadata":{"a":"b"}}`)
	f.Add(`{"items":[{"type":"reasoning","content":[{"text":"x"}]},{"id":"msg_1"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		in, err := decodeAdditions(t.Context(), []byte(text), "items", "metadata")
		if err != nil {
			return
		}
		c := conversation{Metadata: in.metadata}
		for i := range in.items {
			if in.items[i].kind != kindReference {
				in.items[i].show(fmt.Sprint("i", i))
				c.Items = append(c.Items, in.items[i].json)
			}
		}
		b, err := json.Marshal(&c)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := json.Unmarshal(b, &conversation{}); err != nil {
			t.Errorf("%s: %v", b, err)
		}
		if !json.Valid(c.append(nil)) {
			t.Errorf("%s", c.append(nil))
		}
	})
}
