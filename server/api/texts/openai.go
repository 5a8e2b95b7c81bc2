package texts

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"strconv"

	"tgi/runtime/embed"
	"tgi/server"
	"tgi/server/embeddings"
	"tgi/server/wire"
)

// embeddings is POST /v1/embeddings. Vectors have the length 1, as OpenAI's and TEI's do.
func (a *API) embeddings(w http.ResponseWriter, r *http.Request, body []byte) error {
	var c common
	var b batch
	var format *string
	list := append(c.fields(),
		wire.Field{Name: "input", Required: true, Read: b.read},
		wire.Field{Name: "encoding_format", Read: wire.Optional(&format, (*wire.Reader).String)},
		wire.Field{Name: "truncate_prompt_tokens", Read: wire.Optional(&c.most, (*wire.Reader).Int32)})
	err := server.Decode(r.Context(), body, func(r *wire.Reader) error {
		return r.Object("struct EmbeddingRequest", list)
	})
	if err == nil {
		err = c.finish("input")
	}
	if err != nil {
		return err
	}
	coded := false
	if format != nil {
		if coded = *format == "base64"; !coded && *format != "float" {
			return invalid("encoding_format", "`encoding_format` must be float or base64. Given: %.32q", *format)
		}
	}
	m, release, err := a.use(r, c.model, server.Embeds)
	if err != nil {
		return err
	}
	defer release()
	dims, err := dimensions(c.dimensions, m.Service.Dimensions())
	if err != nil {
		return err
	}
	result, err := m.Service.Run(r.Context(), b.inputs, c.options, embed.Vector)
	if err != nil {
		return err
	}
	out := server.NewLong(w)
	out.Text(`{"object":"list","data":[`)
	for i, v := range result.Vectors {
		v = embeddings.Cut(v, dims)
		embed.Normalize(v)
		out.Append(func(b []byte) []byte {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, `{"object":"embedding","index":`...), int64(i), 10)
			b = append(b, `,"embedding":`...)
			if coded {
				return append(appendBase64(b, v), '}')
			}
			return append(appendNumbers(b, v), '}')
		})
	}
	total := strconv.Itoa(result.Total())
	out.Text(`],"model":`)
	out.String(named(c.model, m))
	out.Text(`,"usage":{"prompt_tokens":` + total + `,"total_tokens":` + total + `}}`)
	server.Note(r.Context(), out.Close())
	return nil
}

// dimensions returns how many numbers of a vector are wanted.
func dimensions(wanted *uint64, all int) (int, error) {
	if wanted == nil {
		return all, nil
	}
	if *wanted < 1 || *wanted > uint64(all) {
		return 0, invalid("dimensions", "`dimensions` must be from 1 to %d, the length of this model's vectors. Given: %d",
			all, *wanted)
	}
	return int(*wanted), nil
}

func appendNumbers(b []byte, v []float32) []byte {
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendFloat32(b, x)
	}
	return append(b, ']')
}

// appendBase64 writes numbers as 32-bit floats, little-endian, in base64.
func appendBase64(b []byte, v []float32) []byte {
	raw := make([]byte, 0, 4*len(v))
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	b = append(b, '"')
	return append(base64.StdEncoding.AppendEncode(b, raw), '"')
}
