package fields

import (
	"fmt"
	"strings"

	"tgi/server/generate"
	"tgi/server/wire"
)

// Prediction is the field prediction: OpenAI's object with what a reply is expected to be, or null.
func Prediction(d *generate.Draft) wire.Field {
	return wire.Field{Name: "prediction", Read: func(r *wire.Reader) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		kind := ""
		var text strings.Builder
		err := r.Object(`an object such as {"type": "content", "content": "..."}`, []wire.Field{
			{Name: "type", Required: true, Read: wire.Into(&kind, (*wire.Reader).String)},
			{Name: "content", Required: true, Read: func(r *wire.Reader) error {
				return OneOf(r, `a string or an array of {"type": "text", "text": "..."}`, func(r *wire.Reader) error {
					s, err := r.String()
					text.WriteString(s)
					return err
				}, func(r *wire.Reader) error {
					return r.Array(func(i int) error { return predictedPart(r, i, &text) })
				})
			}},
		})
		if err == nil && kind != "content" {
			err = unknownPrediction("prediction", kind, "content")
		}
		s := text.String()
		d.Prediction = &s
		return err
	}}
}

// predictedPart reads one part of a prediction.
func predictedPart(r *wire.Reader, i int, text *strings.Builder) error {
	kind, part := "", ""
	err := r.Object("struct PredictionChunk", []wire.Field{
		{Name: "type", Required: true, Read: wire.Into(&kind, (*wire.Reader).String)},
		{Name: "text", Required: true, Read: wire.Into(&part, (*wire.Reader).String)},
	})
	if err == nil && kind != "text" {
		err = unknownPrediction(fmt.Sprintf("prediction.content[%d]", i), kind, "text")
	}
	text.WriteString(part)
	return err
}

// unknownPrediction refuses a type that is not the one that there is.
func unknownPrediction(place, given, want string) error {
	return &generate.Invalid{Msg: fmt.Sprintf("`%s.type` must be %q. Given: %.32q", place, want, given),
		Field: "prediction"}
}
