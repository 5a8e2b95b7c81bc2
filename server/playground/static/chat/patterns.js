// Expressions that others wrote, and which a browser would run on the page's own thread: one that takes too long
// freezes the page, since nothing can end it.

// mayHang says whether a browser may take too long to see that a text does not match: it tries each way in which what
// repeats may divide the text, while the server's engine needs a time that grows with the text alone.
export function mayHang(pattern, text) {
  if (/(?:[*+}|]|[^(]\?).*\)[*+{]/s.test(pattern)) return true; // something that repeats, or a choice, is repeated
  if ((pattern.match(/[^(]\?|\|/g)?.length ?? 0) > 20) return true; // each doubles the ways
  const repeats = pattern.match(/[*+]|,\d*}/g)?.length ?? 0;
  return text.length ** repeats > 1e8;
}

// schemaMayHang says it of the expressions in a schema, and of the strings in a value.
export function schemaMayHang(schema, value) {
  const patterns = [];
  visit(schema, (key, part) => {
    if (key === 'pattern' && typeof part === 'string') patterns.push(part);
    if (key === 'patternProperties' && part) patterns.push(...Object.keys(part));
  });
  if (!patterns.length) return false;
  let longest = '';
  const note = (text) => {
    if (typeof text === 'string' && text.length > longest.length) longest = text;
  };
  note(value);
  visit(value, (key, part) => [key, part].forEach(note));
  return patterns.some((pattern) => mayHang(pattern, longest));
}

// visit calls see with each member below a value.
function visit(value, see) {
  if (value === null || typeof value !== 'object') return;
  for (const [key, part] of Object.entries(value)) {
    see(key, part);
    visit(part, see);
  }
}
