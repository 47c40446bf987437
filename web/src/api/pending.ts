// Calls and shapes that openapi.json doesn't have yet, as the parts agreed on them.

import { request, type Query } from './request';
import type { Attempt, Content, Run, Schedule, Launched, Launch } from './generated';

export type TaskState =
  'waiting' | 'running' | 'executed' | 'hit' | 'failed' | 'skipped' | 'blocked' | 'cancelled';

export type StepCounts = Record<
  'waiting' | 'running' | 'executed' | 'hits' | 'failed' | 'skipped' | 'blocked' | 'cancelled',
  number
>;

export interface GraphStep {
  step: string;
  kind: 'run' | 'uses' | 'approve' | 'pipeline';
  uses: string | null;
  needs: string[];
  /** null: not known before other steps have run. */
  tasks: number | null;
  counts: StepCounts;
  started: string | null;
  ended: string | null;
  duration_ns: number;
  critical: boolean;
  group: string | null;
  finally: boolean;
}

export interface Graph {
  steps: GraphStep[];
  edges: { from: string; to: string; data: boolean; tasks: number }[];
  inputs: { name: string; origin: string | null; content: Content }[];
}

export interface TaskRow {
  task: string;
  step: string;
  state: TaskState;
  phase: string | null;
  started: string | null;
  ended: string | null;
  duration_ns: number | null;
  saved_ns: number | null;
  attempts: number;
  reason: string | null;
  hit_of: string | null;
  failure: string | null;
  message: string | null;
  waiting: string | null;
  node: string | null;
  metric: { name: string; value: number } | null;
  critical: boolean;
}

export interface TaskRows {
  tasks: TaskRow[];
  next: string | null;
  total?: number | null;
}

export interface Port {
  name: string;
  content: Content;
  from?: { task?: string; output?: string; input?: string } | null;
  path?: string | null;
}

export type TaskDetail = TaskRow & {
  description?: string | null;
  why: {
    causes: string[];
    changes: {
      what: string;
      name: string;
      was: string | null;
      now: string | null;
      was_content: Content;
      now_content: Content;
      detail: string | null;
    }[];
    since: string | null;
  } | null;
  builtin?: string | null;
  tools?: Record<string, string>;
  with?: Record<string, string>;
  secrets?: string[];
  command: string | null;
  key?: string | null;
  inputs: Port[];
  outputs: Port[];
  params: Record<string, unknown>;
  env: Record<string, string>;
  attempts_list: AttemptDetail[];
  metrics: Record<string, number | null>;
  series: string[];
  ranks: number;
  log: { bytes: number | null; lines?: number | null } | null;
  upstream: string[];
  downstream: string[];
};

export type AttemptDetail = Attempt & {
  node?: string | null;
  pod?: string | null;
  max_rss_bytes?: number | null;
  cpu_ns?: number | null;
};

export type TimelineRow = [
  task: string,
  step: number,
  start: number | null,
  end: number | null,
  state: TaskState,
  waited: number,
];

export interface Timeline {
  start: string | null;
  rows: TimelineRow[];
  steps: string[];
  critical: string[];
  saved_ns: number;
}

export type SeriesPoint = [step: number, value: number | null, time_ns?: number | null];
export interface SeriesAnswer {
  series: { task: string; metric: string; points: SeriesPoint[]; downsampled: boolean }[];
}

export interface LogIndex {
  bytes: number;
  lines: number;
  every: number;
  offsets: number[];
  first_error: { offset: number; line: number } | null;
}

export interface LogMatches {
  bytes: number;
  matches: { offset: number; line: number; text: string }[];
  next_offset: number | null;
}

export interface ContentFacts {
  content: string;
  kind: string;
  size: number;
  names: { run: string; task: string; output: string }[];
  type: string | null;
}

export interface Entry {
  name: string;
  kind: 'file' | 'executable' | 'symlink' | 'directory';
  size: number;
  content: string | null;
  target?: string | null;
}

export interface Entries {
  entries: Entry[];
  next: string | null;
  total: number | null;
}

export interface DataTable {
  columns: { name: string; type: string }[];
  rows: unknown[][];
  total: number | null;
}

export interface Shard {
  samples: {
    key: string;
    members: { name: string; offset: number; size: number }[];
    label: string | number | null;
  }[];
  total: number | null;
}

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

export interface Session {
  user: string | null;
  role: 'viewer' | 'operator' | 'admin' | null;
  expires: string | null;
  way: 'cookie' | 'bearer' | 'proxy' | 'local' | null;
  signed_in: boolean;
  sign_in: boolean;
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

export interface Audit {
  entries: {
    at: string;
    who: string | null;
    role: string | null;
    way: string;
    address: string | null;
    method: string;
    path: string;
    status: number;
  }[];
  next: string | null;
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

export const session = (s?: S) => request<Session>('GET', '/api/v1/session', {}, undefined, s);
export const signIn = (token: string) => request<Session>('POST', '/api/v1/session', {}, { token });
export const signOut = () => request<void>('DELETE', '/api/v1/session');
export const audit = (q: Query, s?: S) => request<Audit>('GET', '/api/v1/audit', q, undefined, s);
export const graph = (run: string, q: Query, s?: S) =>
  request<Graph>('GET', `/api/v1/runs/${e(run)}/graph`, q, undefined, s);
export const taskRows = (run: string, q: Query, s?: S) =>
  request<TaskRows>('GET', `/api/v1/runs/${e(run)}/tasks`, q, undefined, s);
export const taskDetail = (run: string, q: Query, s?: S) =>
  request<TaskDetail>('GET', `/api/v1/runs/${e(run)}/task`, q, undefined, s);
export const timeline = (run: string, q: Query, s?: S) =>
  request<Timeline>('GET', `/api/v1/runs/${e(run)}/timeline`, q, undefined, s);
export const series = (run: string, q: Query, s?: S) =>
  request<SeriesAnswer>('GET', `/api/v1/runs/${e(run)}/series`, q, undefined, s);
export const logIndex = (run: string, q: Query, s?: S) =>
  request<LogIndex>('GET', `/api/v1/runs/${e(run)}/log/index`, q, undefined, s);
export const logSearch = (run: string, q: Query, s?: S) =>
  request<LogMatches>('GET', `/api/v1/runs/${e(run)}/log/search`, q, undefined, s);
export const contentFacts = (id: string, q: Query, s?: S) =>
  request<ContentFacts>('GET', `/api/v1/content/${e(id)}`, q, undefined, s);
export const contentEntries = (id: string, q: Query, s?: S) =>
  request<Entries>('GET', `/api/v1/content/${e(id)}/entries`, q, undefined, s);
export const contentTable = (id: string, q: Query, s?: S) =>
  request<DataTable>('GET', `/api/v1/content/${e(id)}/table`, q, undefined, s);
export const contentShard = (id: string, q: Query, s?: S) =>
  request<Shard>('GET', `/api/v1/content/${e(id)}/shard`, q, undefined, s);
export const makeView = (content: string, project: string | null) =>
  request<{ base: string; expires: string }>('POST', '/api/v1/views', { project }, { content });
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
export type { Run, Schedule, Launch };
