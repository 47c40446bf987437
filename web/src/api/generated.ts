// Made by tools/client.mjs from the server's openapi.json: don't edit.

import { request, type Query } from './request';

export type Answer = {
  approve: boolean;
  message?: string;
  task: string;
};

export type Answered = {
  approval: Approval;
  run: string;
  task: string;
};

export type Approval = {
  answer: "approved" | "refused" | null;
  at: string | null;
  at_limit: "approve" | "refuse";
  by: string[];
  message: string | null;
  said: string | null;
  until: string | null;
  way: string | null;
  who: string | null;
} | null;

export type Attempt = {
  approval: Approval;
  attempt: number;
  continues: number[];
  duration_ns: number;
  exit: number | null;
  failure: string | null;
  id: number;
  image: string | null;
  message: string | null;
  reason: string | null;
  started: string | null;
  state: "running" | "lost" | "succeeded" | "failed" | "cancelled";
  step: string;
  task: string;
  waiting: string | null;
};

export type Attempts = {
  attempts: Attempt[];
  next: string | null;
};

export type CancelRequest = {
  now?: boolean;
};

export type Cancelled = {
  now: boolean;
  run: string;
};

export type Content = {
  id: string;
  kind: "blob" | "tree" | "reference" | "executable";
  size: number;
} | null;

export type ContentId = {
  id: string;
  kind: "blob" | "tree" | "reference";
  size: number;
};

export type Counts = {
  blocked: number;
  executed: number;
  failed: number;
  hits: number;
  skipped: number;
  total: number;
};

export type Delivered = {
  message: string | null;
  nominal: string | null;
  path: string;
  run: string | null;
  schedule: string;
  state: string;
};

export type EventOf = {
  pipeline?: string;
  state?: "succeeded" | "failed" | "any";
  webhook?: string;
} | null;

export type Export = {
  message?: string;
  output: string;
  state: "exported" | "failed";
  task: string;
  uri: string;
};

export type Firing = {
  cause: string;
  claimed?: string | null;
  ended?: string | null;
  event?: string | null;
  first?: string | null;
  message: string | null;
  nominal: string | null;
  number: number;
  path: string;
  run: string | null;
  schedule: string;
  started?: string | null;
  state: string;
  times?: number;
};

export type Firings = {
  firings: Firing[];
  next: string | null;
};

export type HandedOver = {
  new: boolean;
  project: string;
  run: string;
};

export type Handover = {
  files: ContentId;
  git?: Record<string, unknown>;
  inputs: Record<string, unknown>[];
  options: Record<string, unknown>;
  params: Record<string, unknown>;
  path: string;
  pipeline: string;
  request: string;
  store: string;
};

export type Health = {
  status: "alive" | "stuck";
  stuck_s?: number;
};

export type Index = {
  name: string;
  openapi: string;
  version: string;
};

export type Launch = {
  ended: string | null;
  exit: number | null;
  launch: string;
  pid: number;
  problem: string | null;
  project: string;
  run: string | null;
  run_state: string | null;
  started: string | null;
  state: "running" | "ended";
};

export type Launched = {
  launch: string;
  project: string;
};

export type Lineage = {
  artifact: string | null;
  edges: {
    from: string;
    name: string;
    to: string;
  }[];
  nodes: {
    code?: string | null;
    content?: "blob" | "tree" | "reference" | "executable";
    git_commit?: string | null;
    git_dirty?: boolean;
    hash?: string | null;
    id: string;
    key?: string;
    kind: "artifact" | "attempt";
    name?: string | null;
    origin?: {
      input: string | null;
      run: string | null;
      uri: string | null;
    } | null;
    params?: Record<string, string>;
    pipeline?: string | null;
    run?: string | null;
    size?: number;
    started?: string | null;
    step?: string;
    task?: string;
    tools?: Record<string, string>;
  }[];
  truncated: boolean;
};

export type Metrics = Record<string, number | null>;

export type OpenAPI = Record<string, unknown>;

export type Paused = {
  path: string;
  paused: boolean;
  schedule: string;
};

export type Problem = {
  detail: string;
  status: number;
  title: string;
  type: string;
};

export type Projects = {
  projects: {
    project: string;
    root: string;
  }[];
};

export type Readiness = {
  checks: {
    detail: string | null;
    name: string;
    ok: boolean;
  }[];
  ready: boolean;
};

export type Run = {
  caused_by: {
    delivery?: string;
    run?: string;
  } | null;
  counts: Counts;
  duration_ns: number;
  exports?: Export[];
  git_commit: string | null;
  git_dirty: boolean;
  hash: string | null;
  id: string;
  message: string | null;
  metrics?: Metrics;
  params: Record<string, unknown>;
  path: string | null;
  pipeline: string;
  reproduces: string | null;
  saved_ns: number;
  started: string | null;
  state: "running" | "died" | "succeeded" | "failed" | "cancelled" | "interrupted";
  tags?: string[];
  trial: {
    number: number;
    sweep: string;
  } | null;
  waiting?: string | null;
};

export type RunMetrics = {
  metrics: Record<string, Metrics>;
  next: string | null;
};

export type RunRequest = {
  keep_going?: boolean;
  params?: Record<string, string | number | boolean>;
  pipeline?: string;
  steps?: string[];
};

export type Runs = {
  next: string | null;
  runs: Run[];
};

export type Schedule = {
  broken: boolean;
  catch_up?: string | null;
  cron: string | null;
  dst?: string | null;
  next: string | null;
  on?: EventOf;
  open: number;
  overlap?: string | null;
  path: string;
  paused: string | null;
  pipeline: string;
  schedule: string;
  timezone: string | null;
};

export type ScheduleNext = {
  next: string[];
  path: string;
  schedule: string;
};

export type Schedules = {
  schedules: Schedule[];
};

export type Task = {
  duration_ns: number;
  key: string | null;
  metrics: Metrics;
  outputs: Record<string, Content>;
  state: "succeeded" | "failed" | "skipped" | "blocked" | "unknown";
  step: string;
  task: string;
};

export type Tasks = {
  next: string | null;
  tasks: Task[];
};

export type Triggered = {
  nominal: string | null;
  path: string;
  schedule: string;
};

/** What this is */
export const index = (query: Query = {}, signal?: AbortSignal) =>
  request<Index>('GET', `/api/v1`, query, undefined, signal);

/** Accept a run that was prepared elsewhere; its content is in the store */
export const handOver = (body: Handover, query: { project?: string } = {}, signal?: AbortSignal) =>
  request<HandedOver>('POST', `/api/v1/handovers`, query, body, signal);

/** Deliver an event to the schedule with this webhook. No token: the headers webhook-id, webhook-timestamp and webhook-signature prove who sends it (Standard Webhooks 1.0.0). The same id again gives the same answer */
export const deliver = (hook: string, query: { project?: string } = {}, signal?: AbortSignal) =>
  request<Delivered>('POST', `/api/v1/hooks/${encodeURIComponent(hook)}`, query, undefined, signal);

/** A run that this server began, also before it has an id */
export const launch = (launch: string, query: { project?: string } = {}, signal?: AbortSignal) =>
  request<Launch>('GET', `/api/v1/launches/${encodeURIComponent(launch)}`, query, undefined, signal);

/** The attempts that made content, or that used it */
export const lineage = (query: { project?: string; content?: string; direction?: "up" | "down"; limit?: number } = {}, signal?: AbortSignal) =>
  request<Lineage>('GET', `/api/v1/lineage`, query, undefined, signal);

/** This description */
export const openapi = (query: Query = {}, signal?: AbortSignal) =>
  request<OpenAPI>('GET', `/api/v1/openapi.json`, query, undefined, signal);

/** The projects that are served */
export const projects = (query: Query = {}, signal?: AbortSignal) =>
  request<Projects>('GET', `/api/v1/projects`, query, undefined, signal);

/** Runs, newest first */
export const runs = (query: { project?: string; pipeline?: string; state?: "running" | "died" | "succeeded" | "failed" | "cancelled" | "interrupted"; schedule?: string; since?: string; until?: string; param?: string; metric?: string; tag?: string; commit?: string; sort?: string; limit?: number; cursor?: number } = {}, signal?: AbortSignal) =>
  request<Runs>('GET', `/api/v1/runs`, query, undefined, signal);

/** Run a pipeline of the project; it goes on as a process of its own */
export const startRun = (body: RunRequest, query: { project?: string } = {}, signal?: AbortSignal) =>
  request<Launched>('POST', `/api/v1/runs`, query, body, signal);

/** One run, by its id, its hash or the beginning of one; `last`: the newest */
export const run = (run: string, query: { project?: string } = {}, signal?: AbortSignal) =>
  request<Run>('GET', `/api/v1/runs/${encodeURIComponent(run)}`, query, undefined, signal);

/** Answer a step that waits for a person */
export const approveStep = (run: string, body: Answer, query: { project?: string } = {}, signal?: AbortSignal) =>
  request<Answered>('POST', `/api/v1/runs/${encodeURIComponent(run)}/approve`, query, body, signal);

/** Attempts, in the order of their starts */
export const attempts = (run: string, query: { project?: string; task?: string; limit?: number; cursor?: number } = {}, signal?: AbortSignal) =>
  request<Attempts>('GET', `/api/v1/runs/${encodeURIComponent(run)}/attempts`, query, undefined, signal);

/** Ask the run's engine to stop */
export const cancelRun = (run: string, body: CancelRequest, query: { project?: string } = {}, signal?: AbortSignal) =>
  request<Cancelled>('POST', `/api/v1/runs/${encodeURIComponent(run)}/cancel`, query, body, signal);

/** Metrics of those tasks that have some */
export const runMetrics = (run: string, query: { project?: string; step?: string; task?: string; limit?: number; cursor?: number } = {}, signal?: AbortSignal) =>
  request<RunMetrics>('GET', `/api/v1/runs/${encodeURIComponent(run)}/metrics`, query, undefined, signal);

/** Tasks with their results, cache hits included */
export const tasks = (run: string, query: { project?: string; step?: string; task?: string; limit?: number; cursor?: number } = {}, signal?: AbortSignal) =>
  request<Tasks>('GET', `/api/v1/runs/${encodeURIComponent(run)}/tasks`, query, undefined, signal);

/** Every schedule, and when it fires next */
export const schedules = (query: { project?: string } = {}, signal?: AbortSignal) =>
  request<Schedules>('GET', `/api/v1/schedules`, query, undefined, signal);

/** Its firings, newest first */
export const scheduleHistory = (schedule: string, query: { project?: string; path?: string; limit?: number; cursor?: string } = {}, signal?: AbortSignal) =>
  request<Firings>('GET', `/api/v1/schedules/${encodeURIComponent(schedule)}/history`, query, undefined, signal);

/** The next nominal times */
export const scheduleNext = (schedule: string, query: { project?: string; path?: string; n?: number } = {}, signal?: AbortSignal) =>
  request<ScheduleNext>('GET', `/api/v1/schedules/${encodeURIComponent(schedule)}/next`, query, undefined, signal);

/** Stop firing until it is resumed */
export const pauseSchedule = (schedule: string, query: { project?: string; path?: string } = {}, signal?: AbortSignal) =>
  request<Paused>('POST', `/api/v1/schedules/${encodeURIComponent(schedule)}/pause`, query, undefined, signal);

/** Fire again, without making up for missed times */
export const resumeSchedule = (schedule: string, query: { project?: string; path?: string } = {}, signal?: AbortSignal) =>
  request<Paused>('POST', `/api/v1/schedules/${encodeURIComponent(schedule)}/resume`, query, undefined, signal);

/** Fire now */
export const triggerSchedule = (schedule: string, query: { project?: string; path?: string } = {}, signal?: AbortSignal) =>
  request<Triggered>('POST', `/api/v1/schedules/${encodeURIComponent(schedule)}/trigger`, query, undefined, signal);

/** The process is alive and makes progress */
export const healthz = (query: Query = {}, signal?: AbortSignal) =>
  request<Health>('GET', `/healthz`, query, undefined, signal);

/** Everything that the server needs is available */
export const readyz = (query: Query = {}, signal?: AbortSignal) =>
  request<Readiness>('GET', `/readyz`, query, undefined, signal);
