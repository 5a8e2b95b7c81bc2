package openai

import "slices"

// ChatMembers lists the members that a chat request may have, sorted: OpenAI's, and those that other servers of its API
// added and this one reads.
func ChatMembers() []string {
	b := &chatBody{}
	var names []string
	for _, f := range append(b.settings.fields(), b.chatFields()...) {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}
