// Escape sequences of terminals (ECMA-48) in a log's line: colours and weights become spans, all else
// goes. A line that a program wrote over with carriage returns shows what stood last.

export interface Style {
  fg: string | null; // 'c0'…'c15': a class; '#rrggbb'
  bg: string | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  inverse: boolean;
}

export interface Piece {
  text: string;
  style: Style | null; // null: plain
}

const PLAIN: Style = {
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  inverse: false,
};

const isPlain = (s: Style) =>
  !s.fg && !s.bg && !s.bold && !s.dim && !s.italic && !s.underline && !s.inverse;

const hex = (n: number) => Math.max(0, Math.min(255, n)).toString(16).padStart(2, '0');

/** xterm's 256 colours: 16 named, a cube of 6, 24 greys. */
export function colour256(n: number): string {
  if (n < 16) return `c${n}`;
  if (n >= 232) return `#${hex(8 + (n - 232) * 10).repeat(3)}`;
  const level = (v: number) => (v === 0 ? 0 : 55 + v * 40);
  const i = n - 16;
  return `#${hex(level(Math.floor(i / 36)))}${hex(level(Math.floor(i / 6) % 6))}${hex(level(i % 6))}`;
}

function sgr(style: Style, codes: number[]): Style {
  let s = { ...style };
  for (let i = 0; i < codes.length; i++) {
    const c = codes[i]!;
    if (c === 0) s = { ...PLAIN };
    else if (c === 1) s.bold = true;
    else if (c === 2) s.dim = true;
    else if (c === 3) s.italic = true;
    else if (c === 4) s.underline = true;
    else if (c === 7) s.inverse = true;
    else if (c === 22) s.bold = s.dim = false;
    else if (c === 23) s.italic = false;
    else if (c === 24) s.underline = false;
    else if (c === 27) s.inverse = false;
    else if (c >= 30 && c <= 37) s.fg = `c${c - 30}`;
    else if (c >= 90 && c <= 97) s.fg = `c${c - 82}`;
    else if (c >= 40 && c <= 47) s.bg = `c${c - 40}`;
    else if (c >= 100 && c <= 107) s.bg = `c${c - 92}`;
    else if (c === 39) s.fg = null;
    else if (c === 49) s.bg = null;
    else if (c === 38 || c === 48) {
      let to: string | null = null;
      if (codes[i + 1] === 5) {
        to = colour256(Math.max(0, Math.min(255, codes[i + 2] ?? 0)));
        i += 2;
      } else if (codes[i + 1] === 2) {
        to = `#${hex(codes[i + 2] ?? 0)}${hex(codes[i + 3] ?? 0)}${hex(codes[i + 4] ?? 0)}`;
        i += 4;
      }
      if (to) s[c === 38 ? 'fg' : 'bg'] = to;
    }
  }
  return s;
}

// CSI … final; OSC … BEL or ST; other two-byte escapes; lone control characters but tab.
const ESCAPE =
  /\x1b\[([0-9;:?<=>]*)[ -/]*(?:([@-~])|$)|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[PX^_][^\x1b]*(?:\x1b\\|$)|\x1b[ -/]*[0-~]?|[\x00-\x08\x0b-\x1f\x7f]/g;

/** What stands last where a line was written over: progress bars write \r and the line again. */
function lastWritten(line: string): string {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  const at = text.lastIndexOf('\r');
  return at < 0 ? text : text.slice(at + 1);
}

export function parse(line: string): Piece[] {
  const text = lastWritten(line);
  if (!/[\x00-\x08\x0b-\x1f\x7f]/.test(text)) return text ? [{ text, style: null }] : [];
  const out: Piece[] = [];
  let style = PLAIN;
  let from = 0;
  const add = (to: number) => {
    if (to <= from) return;
    const piece = text.slice(from, to);
    const as = isPlain(style) ? null : style;
    const before = out[out.length - 1];
    if (before && before.style === as) before.text += piece;
    else out.push({ text: piece, style: as });
  };
  ESCAPE.lastIndex = 0;
  for (let m = ESCAPE.exec(text); m; m = ESCAPE.exec(text)) {
    add(m.index);
    from = m.index + m[0].length;
    if (m[2] === 'm' && !/[?<=>]/.test(m[1] ?? ''))
      style = sgr(
        style,
        (m[1] ?? '').split(/[;:]/).map((c) => (c === '' ? 0 : Number(c))),
      );
  }
  add(text.length);
  return out;
}

export const plain = (line: string): string =>
  parse(line)
    .map((p) => p.text)
    .join('');
