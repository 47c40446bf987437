// What a report knows, as the API would tell it: the page asks as it always does, and is answered
// from the file. `cairn report` (engine/serve/page/report.c) writes the data.

import type {
  Graph,
  LogRange,
  Run,
  SeriesList,
  Task,
  TaskDetail,
  Timeline,
} from '../api/generated';
import { words } from '../base/words';

export interface RunData {
  run: Run;
  tasks: Task[];
  graph: Graph | null;
  timeline: Timeline | null;
  metrics: unknown;
  series: SeriesList | null;
  details?: Record<string, TaskDetail | null>;
  logs?: Record<string, LogRange | null>;
}

export interface ReportData {
  made: string;
  project: string;
  runs: string[];
  of: Record<string, RunData>;
  compare: unknown;
  /** Of outputs with a confusion matrix: their entries and tables, by content, and by content and path. */
  contents?: Record<string, unknown>;
  left_out: { tasks: number; details: number };
}

const EVERY = 1000;
const NEWLINE = 10;
const LIMIT = 50;

const number = (q: URLSearchParams, name: string, otherwise: number) =>
  q.has(name) ? Number(q.get(name)) : otherwise;

const instant = (t: string | null) => (t ? Date.parse(t) : Infinity);

const ORDER: Record<string, (a: Task, b: Task) => number> = {
  started: (a, b) => instant(a.started) - instant(b.started),
  duration: (a, b) => (a.duration_ns ?? 0) - (b.duration_ns ?? 0),
  task: (a, b) => (a.task < b.task ? -1 : a.task > b.task ? 1 : 0),
};

function rows(d: RunData, q: URLSearchParams): unknown {
  const text = (q.get('q') ?? '').toLowerCase();
  const is = (name: string, v: string) => !q.get(name) || q.get(name) === v;
  const sort = q.get('sort') ?? '';
  const order = ORDER[sort.replace(/^-/, '')];
  const all = d.tasks.filter(
    (t) =>
      is('step', t.step) &&
      is('task', t.task) &&
      is('state', t.state) &&
      (!text || `${t.task} ${t.reason ?? ''} ${t.message ?? ''}`.toLowerCase().includes(text)),
  );
  if (order) all.sort((a, b) => (sort.startsWith('-') ? order(b, a) : order(a, b)));
  const from = number(q, 'cursor', 0);
  const to = from + number(q, 'limit', LIMIT);
  return {
    tasks: all.slice(from, to),
    next: to < all.length ? String(to) : null,
    total: all.length,
  };
}

/** The bytes of a log, or of its end; undefined: they aren't here. */
function logOf(d: RunData, q: URLSearchParams): Uint8Array | undefined {
  const task = q.get('task') ?? '';
  const log = d.logs?.[task];
  const attempt = q.get('attempt');
  if (!log || (attempt && Number(attempt) !== d.details?.[task]?.attempts)) return undefined;
  return new TextEncoder().encode(
    (log.offset > 0 ? `${words.report.logCut(log.offset)}\n` : '') + log.text,
  );
}

/** Where each line begins. */
function starts(bytes: Uint8Array): number[] {
  const at = bytes.length > 0 ? [0] : [];
  for (let i = bytes.indexOf(NEWLINE); i >= 0; i = bytes.indexOf(NEWLINE, i + 1))
    if (i + 1 < bytes.length) at.push(i + 1);
  return at;
}

function logBytes(bytes: Uint8Array, q: URLSearchParams): Uint8Array {
  if (q.has('lines')) {
    const at = starts(bytes);
    return bytes.subarray(at[Math.max(0, at.length - number(q, 'lines', 0))] ?? 0);
  }
  const offset = number(q, 'offset', 0);
  const from = offset < 0 ? Math.max(0, bytes.length + offset) : offset;
  return bytes.subarray(from, from + number(q, 'bytes', bytes.length));
}

function logIndex(bytes: Uint8Array): unknown {
  const at = starts(bytes);
  const ended = bytes.length > 0 && bytes[bytes.length - 1] === NEWLINE;
  return {
    bytes: bytes.length,
    lines: ended ? at.length : Math.max(0, at.length - 1),
    every: EVERY,
    offsets: at.filter((_, i) => i % EVERY === 0),
    first_error: null,
  };
}

function logSearch(bytes: Uint8Array, q: URLSearchParams): unknown {
  const at = starts(bytes);
  const exact = q.get('case') === 'true';
  const fold = (s: string) => (exact ? s : s.toLowerCase());
  const wanted = fold(q.get('q') ?? '');
  const decoder = new TextDecoder();
  const matches = at
    .map((offset, line) => {
      const text = decoder.decode(bytes.subarray(offset, at[line + 1] ?? bytes.length));
      return { offset, line, text: text.replace(/\n$/, '') };
    })
    .filter((m) => m.offset >= number(q, 'offset', 0) && fold(m.text).includes(wanted));
  return { bytes: bytes.length, matches, next_offset: null };
}

function ofRun(d: RunData, what: string, q: URLSearchParams): unknown {
  const task = q.get('task') ?? '';
  const log = what.startsWith('log') ? logOf(d, q) : undefined;
  switch (what) {
    case '':
      return d.run;
    case 'graph':
      return d.graph ?? undefined;
    case 'timeline':
      return d.timeline ?? undefined;
    case 'metrics':
      return d.metrics ?? undefined;
    case 'series':
      return {
        series: (d.series?.series ?? []).filter(
          (s) => (!task || s.task === task) && (!q.get('metric') || s.metric === q.get('metric')),
        ),
      };
    case 'tasks':
      return rows(d, q);
    case 'task':
      return d.details?.[task] ?? undefined;
    case 'attempts':
      return { attempts: [], next: null };
    case 'log':
      return log && logBytes(log, q);
    case 'log/index':
      return log && logIndex(log);
    case 'log/search':
      return log && logSearch(log, q);
    default:
      return undefined;
  }
}

/** The answer to GET `address`: a value for JSON, bytes, or undefined for what isn't in the report. */
export function answer(data: ReportData, address: string): unknown {
  const u = new URL(address, 'http://report');
  const m = /^\/api\/v1\/runs\/([^/]+)(?:\/(.+))?$/.exec(u.pathname);
  if (u.pathname === '/api/v1/compare') return data.compare ?? undefined;
  const c = /^\/api\/v1\/content\/([^/]+)\/(entries|table)$/.exec(u.pathname);
  if (c) {
    const path = u.searchParams.get('path');
    return data.contents?.[
      [c[2], decodeURIComponent(c[1] ?? ''), ...(path ? [path] : [])].join(' ')
    ];
  }
  const d = m ? data.of[decodeURIComponent(m[1] ?? '')] : undefined;
  return d ? ofRun(d, m?.[2] ?? '', u.searchParams) : undefined;
}

export function respond(data: ReportData, address: string): Response {
  const found = answer(data, address);
  if (found instanceof Uint8Array) return new Response(found as BodyInit);
  return found === undefined
    ? Response.json({ detail: words.report.missing }, { status: 404 })
    : Response.json(found);
}
