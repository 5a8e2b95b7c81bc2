package openapi

import "encoding/json"

// Schema is an OpenAPI 3.0 schema object.
type Schema struct {
	Ref         string             `json:"$ref,omitempty"`
	Type        string             `json:"type,omitempty"`
	Format      string             `json:"format,omitempty"`
	Description string             `json:"description,omitempty"`
	Nullable    bool               `json:"nullable,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Default     any                `json:"default,omitempty"`
	Example     any                `json:"example,omitempty"`
	Minimum     *float64           `json:"minimum,omitempty"`
	Maximum     *float64           `json:"maximum,omitempty"`
	OpenMinimum bool               `json:"exclusiveMinimum,omitempty"`
	OpenMaximum bool               `json:"exclusiveMaximum,omitempty"`
	MaxItems    int                `json:"maxItems,omitempty"`
	Items       *Schema            `json:"items,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Additional  *Schema            `json:"additionalProperties,omitempty"`
	OneOf       []*Schema          `json:"oneOf,omitempty"`
	AnyOf       []*Schema          `json:"anyOf,omitempty"`
	AllOf       []*Schema          `json:"allOf,omitempty"`
	// Discriminator names the member that says which of OneOf a value is.
	Discriminator *Discriminator `json:"discriminator,omitempty"`
	// own, unless it is nil, is what the schema is in place of all else.
	own any
}

// Discriminator is an OpenAPI discriminator object.
type Discriminator struct {
	PropertyName string            `json:"propertyName"`
	Mapping      map[string]string `json:"mapping"`
}

// MarshalJSON implements json.Marshaler.
func (s *Schema) MarshalJSON() ([]byte, error) {
	if s.own != nil {
		return json.Marshal(s.own)
	}
	type plain Schema
	return json.Marshal((*plain)(s))
}

// property is one member of an object.
type property struct {
	name     string
	required bool
	schema   *Schema
}

// need is a member that is always there; may is one that need not be.
func need(name string, s *Schema) property { return property{name, true, s} }
func may(name string, s *Schema) property  { return property{name, false, s} }

func object(about string, members ...property) *Schema {
	s := &Schema{Type: "object", Description: about, Properties: map[string]*Schema{}}
	for _, m := range members {
		s.Properties[m.name] = m.schema
		if m.required {
			s.Required = append(s.Required, m.name)
		}
	}
	return s
}

// refPrefix begins references to schemas of the document.
const refPrefix = "#/components/schemas/"

func ref(name string) *Schema { return &Schema{Ref: refPrefix + name} }

func list(of *Schema) *Schema { return &Schema{Type: "array", Items: of} }

func text(about string) *Schema { return &Schema{Type: "string", Description: about} }

func flag(about string) *Schema { return &Schema{Type: "boolean", Description: about} }

// number is a 32-bit float.
func number(about string) *Schema {
	return &Schema{Type: "number", Format: "float", Description: about}
}

// whole is an integer that is not negative.
func whole(format, about string) *Schema {
	return &Schema{Type: "integer", Format: format, Description: about, Minimum: new(float64)}
}

func words(about string, values ...string) *Schema {
	return &Schema{Type: "string", Description: about, Enum: values}
}

func oneOf(about string, options ...*Schema) *Schema {
	return &Schema{Description: about, OneOf: options}
}

// anyOf is oneOf for options that may overlap.
func anyOf(about string, options ...*Schema) *Schema {
	return &Schema{Description: about, AnyOf: options}
}

// orNull lets the value be null. A reference has no room for that beside it.
func orNull(s *Schema) *Schema {
	if s.Ref != "" {
		return &Schema{AllOf: []*Schema{s}, Nullable: true}
	}
	s.Nullable = true
	return s
}

// above and below bound a number, without the bound itself; from and upTo with it.
func above(s *Schema, n float64) *Schema {
	s.Minimum, s.OpenMinimum = &n, true
	return s
}

func below(s *Schema, n float64) *Schema {
	s.Maximum, s.OpenMaximum = &n, true
	return s
}

func from(s *Schema, n float64) *Schema {
	s.Minimum = &n
	return s
}

func upTo(s *Schema, n float64) *Schema {
	s.Maximum = &n
	return s
}

func example(s *Schema, v any) *Schema {
	s.Example = v
	return s
}
