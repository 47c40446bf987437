// What happens on the server, as it happens. One tab of a browser holds the only connection (a
// browser allows six to a server) and tells the others; when it goes, another takes over. A cut
// line is nobody's business: it is made again with the last event's number, and while it is down the
// pages read again every few seconds.
//
// A page subscribes and patches what it shows, by id. `reset` says that something may have been
// missed: read everything again. Patches are idempotent, so the same event twice does no harm.

import { signal } from '@preact/signals';
import type { Run, Schedule, TaskRow } from '../api';

export type RunEvent = Run & { project?: string };
export type TaskEvent = TaskRow & { run: string; project?: string };
export type Happened =
  | { kind: 'run'; data: RunEvent }
  | { kind: 'task'; data: TaskEvent }
  | { kind: 'schedule'; data: Schedule & { project?: string } }
  /** Told from here on: the tasks of these runs. What was read before may be older. */
  | { kind: 'open'; runs: string[] }
  | { kind: 'reset' };

export type Way = 'live' | 'polling' | 'off';
export const way = signal<Way>('off');

type Listener = (batch: Happened[]) => void;
const listeners = new Set<Listener>();
const wanted = new Map<string, number>(); // runs whose tasks somebody here shows

const POLL_MS = 5000;
const BACKOFF_MS = [1000, 2000, 5000, 10_000, 30_000];
const OPEN_MS = 8000; // a proxy that holds the answer back looks like this: poll meanwhile

// ---- to the pages: in batches, once a frame at most

let pending: Happened[] = [];
let flushing = false;

function tell(h: Happened): void {
  pending.push(h);
  if (flushing) return;
  flushing = true;
  // A hidden tab gets no frames; a timer does, once a second.
  const flush = () => {
    flushing = false;
    const batch = pending;
    pending = [];
    for (const l of [...listeners]) l(batch);
  };
  if (document.hidden) setTimeout(flush, 500);
  else requestAnimationFrame(flush);
}

/** Subscribes; with a run's id, to its tasks as well. Returns the way out. */
export function subscribe(listener: Listener, run?: string): () => void {
  listeners.add(listener);
  if (run) {
    wanted.set(run, (wanted.get(run) ?? 0) + 1);
    announce();
  }
  begin();
  return () => {
    listeners.delete(listener);
    if (run) {
      const n = (wanted.get(run) ?? 1) - 1;
      if (n > 0) wanted.set(run, n);
      else wanted.delete(run);
      announce();
    }
  };
}

// ---- between the tabs

type Message =
  | { type: 'want'; tab: string; runs: string[] }
  | { type: 'bye'; tab: string }
  | { type: 'leader' }
  | { type: 'way'; way: Way }
  | { type: 'event'; event: Happened };

const tab = Math.random().toString(36).slice(2);
const wants = new Map<string, string[]>(); // at the leader: what each tab shows
let channel: BroadcastChannel | null = null;
let leading = false;
let begun = false;

function post(m: Message): void {
  channel?.postMessage(m);
}

function announce(): void {
  const runs = [...wanted.keys()];
  if (leading) {
    wants.set(tab, runs);
    connect();
  } else {
    post({ type: 'want', tab, runs });
  }
}

function heard(m: Message): void {
  switch (m.type) {
    case 'event':
      tell(m.event);
      break;
    case 'way':
      way.value = m.way;
      break;
    case 'leader':
      post({ type: 'want', tab, runs: [...wanted.keys()] });
      break;
    case 'want':
      if (!leading) break;
      wants.set(m.tab, m.runs);
      post({ type: 'way', way: way.value });
      connect();
      break;
    case 'bye':
      if (leading && wants.delete(m.tab)) connect();
      break;
  }
}

/** Nothing happens in a report. */
export function keepStill(): void {
  begun = true;
}

function begin(): void {
  if (begun) return;
  begun = true;
  if ('BroadcastChannel' in globalThis && navigator.locks) {
    channel = new BroadcastChannel('cairn-live');
    channel.onmessage = (e) => heard(e.data as Message);
    addEventListener('pagehide', () => post({ type: 'bye', tab }));
    window.addEventListener('pageshow', (e: PageTransitionEvent) => {
      if (e.persisted) tell({ kind: 'reset' });
    });
    announce();
    void navigator.locks.request('cairn-live', () => {
      lead();
      return new Promise(() => undefined); // until this tab goes
    });
  } else {
    lead(); // an insecure origin has no locks: each tab has its own connection
  }
}

// ---- the leader's connection

let source: EventSource | null = null;
let connected = ''; // the runs that it is open for
let failures = 0;
let poller = 0;
let retry = 0;

function lead(): void {
  leading = true;
  wants.set(tab, [...wanted.keys()]);
  post({ type: 'leader' });
  connect(true);
}

function setWay(w: Way): void {
  if (way.value !== w) {
    way.value = w;
    post({ type: 'way', way: w });
  }
  if (w === 'live') {
    clearInterval(poller);
    poller = 0;
  } else if (!poller) {
    poller = window.setInterval(() => out({ kind: 'reset' }), POLL_MS);
  }
}

function out(h: Happened): void {
  post({ type: 'event', event: h });
  tell(h);
}

function connect(force = false): void {
  const runs = [...new Set([...wants.values()].flat())].sort().slice(0, 32).join(',');
  if (!force && (source ? runs === connected : retry !== 0)) return;
  clearTimeout(retry);
  retry = 0;
  const before = source;
  const mine = new EventSource(`/api/v1/events${runs ? `?run=${encodeURIComponent(runs)}` : ''}`);
  source = mine;
  connected = runs;
  const slow = window.setTimeout(() => setWay('polling'), OPEN_MS);
  mine.onopen = () => {
    clearTimeout(slow);
    // The old one goes only now: what happens between is told by one of them.
    before?.close();
    // Between a failure and this, something may have been missed that no number covers.
    if (failures > 0) out({ kind: 'reset' });
    else out({ kind: 'open', runs: runs.split(',') });
    failures = 0;
    setWay('live');
  };
  mine.onerror = () => {
    if (mine !== source) return;
    if (mine.readyState !== EventSource.CLOSED) {
      setWay('polling'); // the browser tries again, with Last-Event-ID
      return;
    }
    clearTimeout(slow);
    before?.close();
    source = null;
    setWay('polling');
    const wait = BACKOFF_MS[Math.min(failures++, BACKOFF_MS.length - 1)] ?? 30_000;
    retry = window.setTimeout(() => connect(true), wait);
  };
  for (const kind of ['run', 'task', 'schedule'] as const)
    mine.addEventListener(kind, (e) => {
      out({ kind, data: JSON.parse((e as MessageEvent<string>).data) } as Happened);
    });
  mine.addEventListener('reset', () => out({ kind: 'reset' }));
}
