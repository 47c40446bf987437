// Numbers, times and sizes as people read them. Times are shown in the reader's zone; the exact one
// stands in the title.

import { grouped } from './number';
import { words } from './words';

const SECOND = 1e9;

/** A duration in one or two units: 340 ms, 4.2 s, 3 min 5 s, 2 h 4 min. */
export function duration(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return words.none;
  if (ns < 0) return words.none;
  if (ns < 1e6) return ns === 0 ? '0 s' : '<1 ms';
  if (ns < 0.9995 * SECOND) return `${Math.round(ns / 1e6)} ms`;
  if (ns < 9.95 * SECOND) return `${(ns / SECOND).toFixed(1)} s`;
  const s = Math.round(ns / SECOND);
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), 'min', s % 60, 's');
  if (s < 86400) return two(Math.floor(s / 3600), 'h', Math.floor((s % 3600) / 60), 'min');
  return two(Math.floor(s / 86400), 'd', Math.floor((s % 86400) / 3600), 'h');
}

/** How long a task took. One that never began took no time that means anything. */
export const lasted = (
  t: { started?: string | null; duration_ns?: number | null } | null | undefined,
) => (t?.started || t?.duration_ns ? duration(t.duration_ns) : words.none);

function two(a: number, unitA: string, b: number, unitB: string): string {
  return b === 0 ? `${a} ${unitA}` : `${a} ${unitA} ${b} ${unitB}`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return words.none;
  let i = 0;
  let v = n;
  while (v >= 1023.95 && i < UNITS.length - 1) {
    v /= 1024;
    i++;
  }
  return `${i === 0 || v >= 99.95 ? Math.round(v) : v.toFixed(1)} ${UNITS[i]}`;
}

export function count(n: number | null | undefined): string {
  return n === null || n === undefined ? words.none : grouped(n);
}

/** A metric or param: enough digits to tell values apart, no noise. */
export function value(v: unknown): string {
  if (v === null || v === undefined) return words.none;
  if (typeof v === 'number') {
    if (!Number.isFinite(v)) return String(v);
    if (Number.isInteger(v)) return Math.abs(v) < 1e15 ? v.toString() : v.toExponential(4);
    const a = Math.abs(v);
    if (a < 1e-4 || a >= 1e9) return v.toExponential(3);
    return String(Number(v.toPrecision(5)));
  }
  if (typeof v === 'string') return v;
  return JSON.stringify(v);
}

/** The digits that people compare: the first twelve of a digest, without its algorithm. */
export function shortHash(id: string | null | undefined, digits = 12): string {
  if (!id) return words.none;
  return id.replace(/^sha256:/, '').slice(0, digits);
}

export const shortCommit = (c: string | null | undefined) => (c ? c.slice(0, 8) : words.none);

export function relative(at: Date, now: Date): string {
  const ms = now.getTime() - at.getTime();
  const s = Math.abs(ms) / 1000;
  if (s < 5) return words.justNow;
  const t =
    s < 60
      ? `${Math.floor(s)} s`
      : s < 3600
        ? `${Math.floor(s / 60)} min`
        : s < 86400
          ? `${Math.floor(s / 3600)} h`
          : `${Math.floor(s / 86400)} d`;
  return ms >= 0 ? words.ago(t) : words.inFuture(t);
}

// To make a formatter takes longer than to use it a hundred times: each is made once.

const KINDS = {
  day: ['en-CA', { year: 'numeric', month: '2-digit', day: '2-digit' }],
  clock: ['en-GB', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }],
  date: ['en-GB', { day: 'numeric', month: 'short' }],
  fullDate: ['en-GB', { day: 'numeric', month: 'short', year: 'numeric' }],
  month: ['en-GB', { month: 'long', year: 'numeric' }],
  weekday: ['en-GB', { weekday: 'short' }],
  exact: [
    'en-GB',
    {
      year: 'numeric',
      month: 'short',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      hourCycle: 'h23',
      timeZoneName: 'short',
    },
  ],
} satisfies Record<string, [string, Intl.DateTimeFormatOptions]>;

const made = new Map<string, Intl.DateTimeFormat>();

/** A time in words, in the reader's zone or another one. */
export function inWords(kind: keyof typeof KINDS, at: Date, zone?: string): string {
  const id = `${kind} ${zone ?? ''}`;
  let f = made.get(id);
  if (!f) {
    const [locale, options] = KINDS[kind];
    f = new Intl.DateTimeFormat(locale, { ...options, ...(zone ? { timeZone: zone } : {}) });
    made.set(id, f);
  }
  return f.format(at);
}

/** Today: the time; this year: day and time; else the year as well. */
export function moment(at: Date, now: Date, zone?: string): string {
  const time = inWords('clock', at, zone);
  const [day, today] = [inWords('day', at, zone), inWords('day', now, zone)];
  if (day === today) return time;
  const sameYear = day.slice(0, 4) === today.slice(0, 4);
  return `${inWords(sameYear ? 'date' : 'fullDate', at, zone)} ${time}`;
}

/** The exact time with its zone, and UTC beside it when that differs. */
export function exact(at: Date, zone?: string): string {
  const local = inWords('exact', at, zone);
  const utc = at
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, 'Z');
  return /\b(UTC|GMT)$/.test(local) ? local : `${local} · ${utc}`;
}

export function parseTime(t: string | null | undefined): Date | null {
  if (!t) return null;
  const d = new Date(t);
  return Number.isNaN(d.getTime()) ? null : d;
}

/** What a shell needs to read the text as one word. */
export const shellWord = (s: string) =>
  /^[\w@%+=:,./-]+$/.test(s) ? s : `'${s.replace(/'/g, `'\\''`)}'`;
