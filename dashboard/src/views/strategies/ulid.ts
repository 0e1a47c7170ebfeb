// A request has one id in two forms: the ULID of /pdca, and the UUID of its run. Both are the same 128 bits.

const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function isUlid(text: string): boolean {
  return ULID.test(text);
}

/** The id of the request of a run; null for a text that is no id of a run. */
export function ulidOf(runId: string): string | null {
  if (!UUID.test(runId)) return null;
  let bits = BigInt(`0x${runId.replaceAll("-", "")}`);
  let text = "";
  for (let place = 0; place < 26; place += 1) {
    text = DIGITS.charAt(Number(bits & 31n)) + text;
    bits >>= 5n;
  }
  return text;
}

/** The id of the run of a request; null for a text that is no ULID. */
export function runIdOf(ulid: string): string | null {
  if (!isUlid(ulid)) return null;
  let bits = 0n;
  for (const digit of ulid) bits = (bits << 5n) | BigInt(DIGITS.indexOf(digit));
  const hex = bits.toString(16).padStart(32, "0");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
