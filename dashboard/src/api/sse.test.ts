import { expect, test } from "vitest";
import { EventParser, type StreamEvent } from "./sse";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function parsed(text: string, size: number): StreamEvent[] {
  const all = bytes(text);
  const parser = new EventParser();
  const found: StreamEvent[] = [];
  for (let at = 0; at < all.length; at += size) found.push(...parser.push(all.subarray(at, at + size)));
  return found;
}

const STREAM = 'retry: 2000\n\nid: 41\nevent: snapshot\ndata: {"a":"日本"}\n\n: comment\ndata: one\ndata: two\r\n\r\nid: 42\ndata:three\r\rdata: cut off';

test.each([1, 2, 3, 7, 1000])("events are the same in pieces of %i bytes", (size) => {
  expect(parsed(STREAM, size)).toEqual([
    { id: "41", event: "snapshot", data: '{"a":"日本"}' },
    { id: "41", event: "message", data: "one\ntwo" },
    { id: "42", event: "message", data: "three" },
  ]);
});
