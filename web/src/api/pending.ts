// Calls and shapes that openapi.json doesn't have yet, as the parts agreed on them.

import { request, type Query } from './request';
import type { Run, Launched } from './generated';

export interface Comparison {
  runs: Run[];
  params: Record<string, unknown[]>;
  metrics: Record<string, (number | null)[]>;
  causes: { task: string; differs?: string; sentence: string; causes?: Cause[]; run?: string }[];
}

export interface Cause {
  task: string;
  kind: string;
  what: string | null;
  name: string | null;
  a: string | null;
  b: string | null;
  detail: string | null;
}

export interface PipelineParam {
  name: string;
  type: string;
  default: unknown;
  min?: number | null;
  max?: number | null;
  enum?: unknown[] | null;
  help?: string | null;
}

export interface PipelineFacts {
  path: string;
  pipeline: string;
  description: string | null;
  valid: boolean;
  problems: {
    message: string;
    line?: number | null;
    column?: number | null;
    hint?: string | null;
  }[];
  params: PipelineParam[];
  steps: string[];
  sweeps: string[];
  schedules: string[];
}

export interface Plan {
  pipeline: string;
  tasks: {
    task: string;
    step: string;
    state: 'hit' | 'run' | 'waiting' | 'skipped' | 'blocked';
    key: string | null;
    reason: string | null;
    estimate_ns: number | null;
  }[];
  counts: { total: number; hits: number; run: number; waiting: number };
  estimate_ns: number | null;
}

export interface Home {
  attention: {
    kind: string;
    run?: string;
    schedule?: string;
    path?: string;
    task?: string;
    words: string;
    at: string | null;
  }[];
  running: number;
  week: { runs: number; failed: number; saved_ns: number };
}

export interface StoreFacts {
  place?: string | null;
  bytes: number | null;
  objects: number | null;
  saved_bytes?: number | null;
  gc?: { bytes: number; objects: number; at?: string | null } | null;
  weeks?: { week: string; hits: number; executed: number; saved_ns: number }[];
  [more: string]: unknown;
}

export interface ClusterFacts {
  configured: boolean;
  context?: string | null;
  namespace?: string | null;
  pods?: {
    name: string;
    run: string | null;
    task: string | null;
    phase: string;
    node: string | null;
    waiting: string | null;
  }[];
  waiting?: { task: string; run: string; words: string }[];
}

export interface CalendarEntry {
  nominal: string;
  state: string;
  cause?: string | null;
  run: string | null;
  message?: string | null;
  started?: string | null;
  ended?: string | null;
}

export interface Verdict {
  original: string;
  mode: 'isolated' | 'chained';
  verdict: string | null;
  first: string | null;
  was: Run;
  is: Run;
  tasks: {
    task: string;
    step: string;
    verdict: string;
    why: string | null;
    after_divergence: boolean;
    was_duration_ns: number;
    duration_ns: number;
    outputs: {
      name: string;
      was: string | null;
      is: string | null;
      verdict: string;
      normaliser: string | null;
      path: string | null;
      offset: number | null;
      detail: string | null;
    }[];
    metrics: {
      name: string;
      was: number | null;
      is: number | null;
      tolerance: number | null;
      verdict: string;
    }[];
  }[];
  environment: { what: string; was: string | null; is: string | null }[];
}

type S = AbortSignal | undefined;
const e = encodeURIComponent;

export const compare = (q: Query, s?: S) =>
  request<Comparison>('GET', '/api/v1/compare', q, undefined, s);
export const pipelines = (q: Query, s?: S) =>
  request<{ pipelines: PipelineFacts[] }>('GET', '/api/v1/pipelines', q, undefined, s);
export const plan = (
  body: { pipeline: string; params: Record<string, unknown>; steps?: string[] },
  q: Query,
  s?: S,
) => request<Plan>('POST', '/api/v1/plans', q, body, s);
export const resumeRun = (run: string, q: Query) =>
  request<Launched>('POST', `/api/v1/runs/${e(run)}/resume`, q, {});
export const reproduceRun = (body: { run: string; chained?: boolean; trust?: boolean }, q: Query) =>
  request<Launched>('POST', '/api/v1/reproductions', q, body);
export const verdict = (run: string, q: Query, s?: S) =>
  request<Verdict>('GET', `/api/v1/runs/${e(run)}/verdict`, q, undefined, s);
export const storeFacts = (q: Query, s?: S) =>
  request<StoreFacts>('GET', '/api/v1/store', q, undefined, s);
export const clusterFacts = (q: Query, s?: S) =>
  request<ClusterFacts>('GET', '/api/v1/cluster', q, undefined, s);
export const home = (q: Query, s?: S) => request<Home>('GET', '/api/v1/home', q, undefined, s);
export const calendar = (schedule: string, q: Query, s?: S) =>
  request<{ entries: CalendarEntry[] }>(
    'GET',
    `/api/v1/schedules/${e(schedule)}/calendar`,
    q,
    undefined,
    s,
  );
export const backfill = (schedule: string, body: { from: string; to: string }, q: Query) =>
  request<{ firings: number }>('POST', `/api/v1/schedules/${e(schedule)}/backfill`, q, body);
