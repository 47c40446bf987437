import { describe, expect, it } from 'vitest';
import {
  bytes,
  duration,
  exact,
  moment,
  relative,
  shellWord,
  shortHash,
  value,
} from '../src/base/format';
import { addDays, dayKey, monthOf, parseDay, weekOf } from '../src/base/days';
import { ticks } from '../src/charts/ticks';
import { hexDump, kindOf, looksLikeText } from '../src/pages/kinds';

const S = 1e9;

describe('format', () => {
  it.each([
    [null, '—'],
    [0, '0 s'],
    [400, '<1 ms'],
    [340e6, '340 ms'],
    [999.9e6, '1.0 s'],
    [4.24 * S, '4.2 s'],
    [9.96 * S, '10 s'],
    [59.6 * S, '1 min'],
    [185 * S, '3 min 5 s'],
    [7440 * S, '2 h 4 min'],
    [3 * 86400 * S, '3 d'],
  ])('duration %s is %s', (ns, text) => expect(duration(ns)).toBe(text));
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1.0 KiB'],
    [1536, '1.5 KiB'],
    [5 << 20, '5.0 MiB'],
    [null, '—'],
  ])('%s bytes are %s', (n, text) => expect(bytes(n)).toBe(text));
  it('shows numbers without noise', () => {
    expect(value(0.1 + 0.2)).toBe('0.3');
    expect(value(1e-7)).toBe('1.000e-7');
    expect(value(12)).toBe('12');
    expect(value('x')).toBe('x');
    expect(value([1])).toBe('[1]');
    expect(value(null)).toBe('—');
  });
  it('says when', () => {
    const now = new Date('2026-11-27T12:00:00Z');
    expect(relative(new Date('2026-11-27T11:57:00Z'), now)).toBe('3 min ago');
    expect(relative(new Date('2026-11-27T14:00:00Z'), now)).toBe('in 2 h');
    expect(moment(new Date('2026-11-27T09:05:00Z'), now, 'Europe/Berlin')).toBe('10:05');
    expect(moment(new Date('2026-03-01T23:30:00Z'), now, 'Europe/Berlin')).toBe('2 Mar 00:30');
    expect(exact(new Date('2026-07-01T12:00:00Z'), 'Europe/Berlin')).toMatch(
      /14:00:00.*2026-07-01 12:00:00Z/,
    );
  });
  it('shortens digests and quotes words', () => {
    expect(shortHash('sha256:abcdef0123456789')).toBe('abcdef012345');
    expect(shellWord('lr=0.1')).toBe('lr=0.1');
    expect(shellWord("it's")).toBe(`'it'\\''s'`);
  });
});

describe('days', () => {
  it('begin a week on Monday and cover a month by whole weeks', () => {
    const w = weekOf(new Date(2026, 10, 27));
    expect(w.map((d) => d.key)).toEqual([
      '2026-11-23',
      '2026-11-24',
      '2026-11-25',
      '2026-11-26',
      '2026-11-27',
      '2026-11-28',
      '2026-11-29',
    ]);
    const m = monthOf(new Date(2026, 1, 10));
    expect(m[0]!.key).toBe('2026-01-26');
    expect(m.length).toBe(35);
    expect(m.filter((d) => d.inMonth)).toHaveLength(28);
  });
  it('are days also where clocks change', () => {
    // Each day of a year follows the one before, in whatever zone this runs.
    let d = new Date(2026, 0, 1);
    const seen = new Set<string>();
    for (let i = 0; i < 365; i++) {
      seen.add(dayKey(d));
      d = addDays(d, 1);
    }
    expect(seen.size).toBe(365);
  });
  it('are read back', () => {
    expect(dayKey(parseDay('2026-02-03')!)).toBe('2026-02-03');
    expect(parseDay('yesterday')).toBeNull();
  });
});

describe('ticks', () => {
  it('are round and few', () => {
    expect(ticks(0, 60, 6)).toEqual([0, 10, 20, 30, 40, 50, 60]);
    expect(ticks(0, 7200, 4)).toEqual([0, 1800, 3600, 5400, 7200]);
    expect(ticks(0, 0.01, 5).length).toBeLessThan(12);
    expect(ticks(0, 86400 * 40, 6).every((t) => t % 86400 === 0)).toBe(true);
  });
});

describe('kinds', () => {
  it('are told by name, then by type', () => {
    expect(kindOf('a/b.PNG')).toBe('image');
    expect(kindOf('x.svg', 'image/png')).toBe('svg');
    expect(kindOf('model', 'text/html')).toBe('page');
    expect(kindOf('weights.bin', 'application/octet-stream')).toBe('unknown');
  });
  it('tell text from bytes', () => {
    expect(looksLikeText(new TextEncoder().encode('grüß\n'))).toBe(true);
    expect(looksLikeText(new Uint8Array([1, 2, 0, 3]))).toBe(false);
    expect(looksLikeText(new Uint8Array(200).fill(0xfe))).toBe(false);
    expect(hexDump(new TextEncoder().encode('hello'))).toBe(
      '00000000  68 65 6c 6c 6f                                   hello',
    );
  });
});
