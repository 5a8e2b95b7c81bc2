package guest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"tgi/plugins/internal/sandbox"
)

// Open takes an instance for one of the kinds that work on conversations. No export of the guest has been called yet.
// Closing cancel ends a running call, and every later one, with sandbox.ErrCancelled. When memory is short, it waits
// for a limited time. Errors are sandbox.ErrBusy, sandbox.ErrMemory and sandbox.ErrClosed.
func (g *Guest) Open(seed uint64, cancel <-chan struct{}) (*Session, error) {
	return g.open(sandbox.Lease{Cancel: cancel, Seed: seed, Patient: true})
}

// OpenNow is Open for the token loop: it does not wait for memory.
func (g *Guest) OpenNow(seed uint64, cancel <-chan struct{}) (*Session, error) {
	return g.open(sandbox.Lease{Cancel: cancel, Seed: seed})
}

// OpenShared is Open for calls that share the processors with others, by a turn.
func (g *Guest) OpenShared(seed uint64, cancel <-chan struct{}, turn sandbox.Turn) (*Session, error) {
	return g.open(sandbox.Lease{Cancel: cancel, Seed: seed, Patient: true, Turn: turn})
}

// OpenProgram is OpenShared for a program, whose host functions find host.
func (g *Guest) OpenProgram(seed uint64, cancel <-chan struct{}, turn sandbox.Turn, host any) (*Session, error) {
	return g.open(sandbox.Lease{Cancel: cancel, Seed: seed, Patient: true, Turn: turn, Host: host})
}

func (g *Guest) open(l sandbox.Lease) (*Session, error) {
	in, err := g.pool.Take(l)
	if err != nil {
		return nil, err
	}
	return &Session{g: g, in: in}, nil
}

// Request writes a conversation's request to the guest's memory, once in a session. The results are the arguments of an
// export.
func (s *Session) Request(request []byte) (at, n uint64, err error) {
	if s.in == nil {
		return 0, 0, s.closedError("request")
	}
	return s.g.writeText(s.in, request, s.g.rooms.request, requestRoom)
}

// Begin calls an export that begins a kind with a request; a "no" is a *Refusal.
func (s *Session) Begin(export string, request []byte) error {
	at, n, err := s.Request(request)
	if err != nil {
		return err
	}
	return s.g.callForError(s.in, export, at, n)
}

// Call runs an export that is called once in a session, under the fuel of a request.
func (s *Session) Call(export string, args ...uint64) (uint64, error) {
	if s.in == nil {
		return 0, s.closedError(export)
	}
	stack := make([]uint64, max(1, len(args)))
	copy(stack, args)
	used, err := s.g.callCounted(s.in, s.in.Func(export), stack, s.g.limits.request(s.g.limits.FuelPerRequest))
	s.used += used
	return stack[0], err
}

// Used is the fuel of the session's calls by Call.
func (s *Session) Used() int64 { return s.used }

// Has reports whether the guest has an optional export.
func (g *Guest) Has(export string) bool { return g.module.Has(export) }

// Room asks the guest to allocate n bytes. The fuel of a request pays for it.
func (s *Session) Room(n int) (uint32, error) {
	if s.in == nil {
		return 0, s.closedError("tgi_alloc")
	}
	budget := allotment{left: s.g.limits.FuelPerRequest}
	return s.g.alloc(s.in, uint64(n), &budget)
}

// Refuse counts a refusal that the guest did not report as an error text, and returns it as an error.
func (s *Session) Refuse(text []byte) *Refusal {
	s.g.counts.refusals.Add(1)
	return &Refusal{Text: ErrorText(text)}
}

// withModel adds the model to a configuration, unless the configuration already has one: an operator may replace it.
// The guest itself refuses a configuration that is not an object.
func withModel(config, model []byte) []byte {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(config, &members); err != nil || members["model"] != nil {
		return config
	}
	return WithMember(config, "model", model)
}

// WithMember adds a member to a JSON object, behind those that it has. A nil value means {}.
func WithMember(object []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		value = noParams
	}
	object = bytes.TrimRight(object, " \t\r\n")
	end := bytes.LastIndexByte(object, '}')
	if end < 0 {
		return object
	}
	comma := ","
	if head := bytes.TrimRight(object[:end], " \t\r\n"); bytes.HasSuffix(head, []byte("{")) {
		comma = ""
	}
	out := make([]byte, 0, len(object)+len(name)+len(value)+4)
	out = append(out, object[:end]...)
	return fmt.Appendf(out, "%s%q:%s}", comma, name, value)
}
