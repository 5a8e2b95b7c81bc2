package openai

import (
	"encoding/json"
	"errors"
	"slices"

	"tgi/server/wire"
)

// ChatMembers lists the members that a chat request may have, sorted: OpenAI's, and those that other servers of its API
// added and this one reads.
func ChatMembers() []string {
	var names []string
	for _, f := range chatMembers() {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

// CheckChatMember returns why value cannot be the member name of a chat request, as far as that can be told without the
// other members and the model.
func CheckChatMember(name string, value json.RawMessage) error {
	list := chatMembers()
	at := slices.IndexFunc(list, func(f wire.Field) bool { return f.Name == name })
	if at < 0 {
		return errors.New("no such member")
	}
	err := wire.Decode(value, list[at].Read)
	if shape, ok := errors.AsType[*wire.Error](err); ok {
		return errors.New(shape.Msg)
	}
	return err
}

// chatMembers are the members of a request that are not read.
func chatMembers() []wire.Field {
	b := &chatBody{}
	return append(b.settings.fields(), b.chatFields()...)
}
