// The export of kind template; a plugin's file re-exports it with "export *".

import { pack, runRender } from "../registry";
import { Output } from "../template";

const rendered = memory.data(20, 4);
let out = new Output(); // kept alive until the next call

export function tgi_template_render(request: usize, len: u32): usize {
  out = new Output();
  const fault = runRender(request, len, out);
  const text = fault ? pack(fault) : (<u64>out.text.address << 32) | <u64>out.text.length;
  store<u32>(rendered, fault ? 1 : 0, 0);
  store<u32>(rendered, <u32>(text >> 32), 4);
  store<u32>(rendered, <u32>text, 8);
  store<u32>(rendered, fault ? 0 : <u32>out.spans.address, 12);
  store<u32>(rendered, fault ? 0 : out.spans.length / 8, 16);
  return rendered;
}
