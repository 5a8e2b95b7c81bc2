// Exports of kind tools; a plugin's file re-exports them with "export *".

import { pack, runBegin, runFeed, runFinish } from "../registry";
import { Events, FINISH_CUT, PIECE_SPECIAL } from "../tools";

const events = new Events();

export function tgi_tools_begin(request: usize, len: u32): u64 {
  return pack(runBegin(request, len));
}

export function tgi_tools_feed(piece: usize, len: u32, flags: u32): u64 {
  events.clear();
  runFeed(String.UTF8.decodeUnsafe(piece, len), (flags & PIECE_SPECIAL) != 0, events);
  return events.told();
}

export function tgi_tools_finish(reason: u32): u64 {
  events.clear();
  runFinish(reason == FINISH_CUT, events);
  return events.told();
}
