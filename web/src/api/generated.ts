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

export type AttemptDetail = {
  approval?: Approval;
  attempt: number;
  continues?: number[];
  cpu_ns: number | null;
  duration_ns?: number;
  ended: string | null;
  exit?: number | null;
  failure?: string | null;
  id: number;
  image?: string | null;
  log: Content;
  max_rss_bytes: number | null;
  message?: string | null;
  node: string | null;
  reason?: string | null;
  signal: number | null;
  started?: string | null;
  state: "running" | "lost" | "succeeded" | "failed" | "cancelled";
  step?: string;
  task?: string;
  waiting?: string | null;
};

export type Attempts = {
  attempts: Attempt[];
  next: string | null;
};

export type Audit = {
  entries: {
    address: string;
    at: string;
    method: string;
    path: string;
    role: string | null;
    status: number;
    way: string | null;
    who: string | null;
  }[];
  next: string | null;
};

export type Backfill = {
  dry_run?: boolean;
  from: string;
  to: string;
};

export type Backfilled = {
  path: string;
  schedule: string;
  times: string[];
};

export type Calendar = {
  firings: Firing[];
  path: string;
  planned: string[];
  schedule: string;
  timezone: string | null;
};

export type CancelRequest = {
  now?: boolean;
};

export type Cancelled = {
  now: boolean;
  run: string;
};

export type Cause = {
  a: string | null;
  b: string | null;
  detail: string | null;
  kind: string;
  name: string | null;
  task: string;
  what: string;
};

export type ClusterFacts = {
  attempts: {
    image: string | null;
    node: string | null;
    run: string;
    started: string | null;
    task: string;
    waiting: string | null;
  }[];
  configured: boolean;
  namespace: string | null;
};

export type Comparison = {
  causes: {
    a: string;
    b: string;
    because: {
      causes: Cause[];
      differs: string;
      sentence: string;
      task: string;
    }[];
    first: Cause | null;
  }[];
  metrics: Record<string, (number | null)[]>;
  params: Record<string, unknown[]>;
  runs: Run[];
};

export type Content = {
  id: string;
  kind: "blob" | "tree" | "reference" | "executable";
  size: number;
} | null;

export type ContentFacts = {
  content: string;
  kind: "blob" | "tree" | "reference" | "executable";
  names: {
    output: string;
    run: string | null;
    task: string;
  }[];
  origin: {
    input?: string | null;
    run?: string | null;
    uri?: string | null;
  } | null;
  size: number;
  type: string;
  view: "directory" | "text" | "json" | "table" | "image" | "svg" | "pdf" | "html" | "audio" | "shard" | "binary";
};

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

export type Entries = {
  entries: {
    content: string | null;
    kind: "file" | "executable" | "symlink" | "directory" | "reference";
    name: string;
    size: number | null;
    target?: string;
  }[];
  next: string | null;
  total: number;
};

export type EstimateAnswer = {
  estimate: {
    condemned: number;
    condemned_bytes: number;
    deleted: number;
    deleted_bytes: number;
    live: number;
    sweep_after: string | null;
  } | null;
  exit: number | null;
  problem: string | null;
  state: "running" | "ended";
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

export type Graph = {
  edges: {
    data: boolean;
    from: string;
    tasks: number;
    to: string;
  }[];
  inputs: {
    content: Content;
    name: string;
    origin: string | null;
    steps: string[];
  }[];
  run: string;
  steps: {
    counts: TaskCounts;
    critical: boolean;
    description: string | null;
    duration_ns: number;
    ended: string | null;
    finally: boolean;
    group: string | null;
    kind: "run" | "uses" | "approve";
    needs: string[];
    started: string | null;
    step: string;
    tasks: number | null;
    uses: string | null;
  }[];
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

export type Home = {
  attention: {
    at: string | null;
    kind: "approval" | "died" | "failed" | "interrupted";
    pipeline: string;
    run: string;
    schedule: string | null;
    words: string | null;
  }[];
  running: number;
  week: {
    runs: number;
    failed: number;
    executed: number;
    hits: number;
    saved_ns: number;
  };
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

export type LogIndex = {
  bytes: number;
  every: number;
  first_error: {
    line: number;
    offset: number;
  } | null;
  lines: number;
  live: boolean;
  offsets: number[];
};

export type LogMatches = {
  bytes: number;
  matches: {
    line: number;
    offset: number;
    text: string;
  }[];
  next_offset: number | null;
};

export type LogRange = {
  bytes: number;
  live: boolean;
  offset: number;
  text: string;
  total: number;
};

export type Metrics = Record<string, number | null>;

export type Nothing = Record<string, unknown>;

export type OpenAPI = Record<string, unknown>;

export type Paused = {
  path: string;
  paused: boolean;
  schedule: string;
};

export type Pipelines = {
  pipelines: {
    description: string | null;
    params: {
      default: unknown;
      enum: unknown[] | null;
      help: string | null;
      max: number | null;
      min: number | null;
      name: string;
      required: boolean;
      type: string;
    }[];
    path: string;
    pipeline: string | null;
    problems: {
      column: number | null;
      file: string | null;
      line: number | null;
      message: string | null;
      severity: "error" | "warning";
    }[];
    schedules: string[];
    steps: string[];
    sweeps: string[];
    valid: boolean;
  }[];
};

export type PlanAnswer = {
  exit: number | null;
  plan: {
    counts?: Record<string, number>;
    estimate_ns?: number | null;
    pipeline?: string;
    tasks?: {
      estimate_ns?: number | null;
      key?: string | null;
      reason?: string | null;
      state?: "hit" | "run" | "waiting" | "skipped" | "blocked";
      step?: string;
      task?: string;
    }[];
  } | null;
  problem: string | null;
  state: "running" | "ended";
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

export type Reproduction = {
  chained?: boolean;
  run: string;
  trust?: boolean;
};

export type Run = {
  approvals?: {
    approval: Approval;
    step: string;
    task: string;
  }[];
  caused_by: {
    delivery?: string;
    run?: string;
  } | null;
  counts: Counts;
  duration_ns: number;
  ended: string | null;
  expected_end?: string | null;
  exports?: Export[];
  git_author: string | null;
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
  schedule: string | null;
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
  total: number | null;
};

export type Samples = {
  samples: {
    key: string;
    label: string | null;
    members: {
      name: string;
      offset: number;
      size: number;
    }[];
  }[];
  total: number | null;
};

export type Schedule = {
  broken: boolean;
  catch_up?: string | null;
  cron: string | null;
  dst?: string | null;
  last: Firing | null;
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

export type SeriesList = {
  series: {
    downsampled: boolean;
    metric: string;
    n: number;
    points: ((number | null)[])[];
    task: string;
  }[];
};

export type Session = {
  expires: string | null;
  role: "viewer" | "operator" | "admin" | null;
  sign_in: boolean;
  signed_in: boolean;
  user: string | null;
  way: "cookie" | "bearer" | "proxy" | "local" | null;
};

export type SignIn = {
  token: string;
};

export type StoreFacts = {
  at: string | null;
  set_aside: number;
  shared: boolean;
  spaces: Record<string, {
    bytes: number;
    objects: number;
  }>;
  temporaries: number;
  temporary_bytes: number;
  uri: string;
  weeks: {
    begin: string | null;
    executed: number;
    failed: number;
    hits: number;
    runs: number;
    saved_ns: number;
  }[];
};

export type Table = {
  columns: {
    name: string;
    type: "number" | "text" | "boolean";
  }[];
  rows: ((string | number | boolean | null)[])[];
  total: number | null;
  truncated: boolean;
};

export type Task = {
  attempts: number;
  critical: boolean;
  duration_ns: number;
  ended: string | null;
  failure: string | null;
  hit_of: string | null;
  key: string | null;
  message: string | null;
  metric: {
    name: string;
    value: number | null;
  } | null;
  metrics: Metrics;
  node: string | null;
  outputs: Record<string, Content>;
  phase: string | null;
  reason: string | null;
  saved_ns: number;
  started: string | null;
  state: TaskState;
  step: string;
  task: string;
  waiting: string | null;
};

export type TaskCounts = {
  waiting: number;
  running: number;
  executed: number;
  hits: number;
  failed: number;
  skipped: number;
  blocked: number;
  cancelled: number;
};

export type TaskDetail = {
  attempts: number;
  attempts_list: AttemptDetail[];
  builtin: string | null;
  code: Content;
  command: string | null;
  critical?: boolean;
  description: string | null;
  downstream: string[];
  downstream_total: number;
  duration_ns?: number;
  ended?: string | null;
  env: Record<string, string>;
  failure?: string | null;
  hit_of?: string | null;
  inputs: {
    content: Content;
    from: {
      input?: string;
      origin?: string | null;
      output?: string;
      task?: string;
    } | null;
    name: string;
  }[];
  key?: string | null;
  log: {
    bytes: number;
  } | null;
  message?: string | null;
  metrics: Metrics;
  node?: string | null;
  outputs: {
    content: Content;
    name: string;
  }[];
  params: Record<string, string>;
  phase?: string | null;
  ranks: number;
  reason?: string | null;
  saved_ns?: number;
  secrets: string[];
  series: string[];
  started?: string | null;
  state: TaskState;
  step: string;
  task: string;
  tools: Record<string, string>;
  upstream: string[];
  upstream_total: number;
  waiting?: string | null;
  why: {
    causes: string[];
    changes: {
      detail: string | null;
      name: string;
      now: string | null;
      now_content: Content;
      was: string | null;
      was_content: Content;
      what: string;
    }[];
    since: string | null;
  };
  with: Record<string, string>;
};

export type TaskState = "waiting" | "running" | "executed" | "hit" | "failed" | "skipped" | "blocked" | "cancelled";

export type Tasks = {
  next: string | null;
  tasks: Task[];
  total: number;
};

export type Timeline = {
  critical: string[];
  end: string | null;
  rows: unknown[][];
  saved_ns: number;
  start: string | null;
  steps: string[];
};

export type Triggered = {
  nominal: string | null;
  path: string;
  schedule: string;
};

export type Verdict = {
  environment: Record<string, unknown>[];
  first: string | null;
  is: Record<string, unknown>;
  mode: "isolated" | "chained";
  original: string;
  tasks: Record<string, unknown>[];
  verdict: string;
  was: Record<string, unknown>;
};

export type View = {
  base: string;
  expires: string;
  kind: "blob" | "tree";
};

export type ViewRequest = {
  content: string;
};

/** What this is */
export const index = (query: Query = {}, signal?: AbortSignal) =>
  request<Index>('GET', `/api/v1`, query, undefined, signal);

/** Who changed what, newest first */
export const audit = (query: { limit?: number | null; cursor?: string | null } = {}, signal?: AbortSignal) =>
  request<Audit>('GET', `/api/v1/audit`, query, undefined, signal);

/** Attempts on the cluster that haven't ended, and what they wait for */
export const cluster = (query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<ClusterFacts>('GET', `/api/v1/cluster`, query, undefined, signal);

/** Two to fifty runs side by side, and why each differs from the first */
export const compare = (query: { project?: string | null; runs?: string | null } = {}, signal?: AbortSignal) =>
  request<Comparison>('GET', `/api/v1/compare`, query, undefined, signal);

/** What a content is, and who made it */
export const content = (content: string, query: { project?: string | null; path?: string | null } = {}, signal?: AbortSignal) =>
  request<ContentFacts>('GET', `/api/v1/content/${encodeURIComponent(content)}`, query, undefined, signal);

/** What is in a directory, by name */
export const contentEntries = (content: string, query: { project?: string | null; path?: string | null; limit?: number | null; cursor?: string | null } = {}, signal?: AbortSignal) =>
  request<Entries>('GET', `/api/v1/content/${encodeURIComponent(content)}/entries`, query, undefined, signal);

/** Samples of a WebDataset tar, and where their members are in it */
export const contentShard = (content: string, query: { project?: string | null; path?: string | null; offset?: number | null; limit?: number | null } = {}, signal?: AbortSignal) =>
  request<Samples>('GET', `/api/v1/content/${encodeURIComponent(content)}/shard`, query, undefined, signal);

/** Rows of a CSV, TSV, JSON lines or NPY file; of its first 64 MiB */
export const contentTable = (content: string, query: { project?: string | null; path?: string | null; offset?: number | null; limit?: number | null } = {}, signal?: AbortSignal) =>
  request<Table>('GET', `/api/v1/content/${encodeURIComponent(content)}/table`, query, undefined, signal);

/** Find out what `cairn store gc` would free, without removing anything; estimates/{estimate} has the answer */
export const startEstimate = (body: Nothing, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Launched>('POST', `/api/v1/estimates`, query, body, signal);

/** What would be freed, once it is known, as `cairn store gc --dry-run --json` prints it */
export const estimate = (estimate: string, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<EstimateAnswer>('GET', `/api/v1/estimates/${encodeURIComponent(estimate)}`, query, undefined, signal);

/** Accept a run that was prepared elsewhere; its content is in the store */
export const handOver = (body: Handover, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<HandedOver>('POST', `/api/v1/handovers`, query, body, signal);

/** What needs attention, and the last seven days */
export const home = (query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Home>('GET', `/api/v1/home`, query, undefined, signal);

/** Deliver an event to the schedule with this webhook. No token: the headers webhook-id, webhook-timestamp and webhook-signature prove who sends it (Standard Webhooks 1.0.0). The same id again gives the same answer */
export const deliver = (hook: string, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Delivered>('POST', `/api/v1/hooks/${encodeURIComponent(hook)}`, query, undefined, signal);

/** A run that this server began, also before it has an id */
export const launch = (launch: string, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Launch>('GET', `/api/v1/launches/${encodeURIComponent(launch)}`, query, undefined, signal);

/** The attempts that made content, or that used it */
export const lineage = (query: { project?: string | null; content?: string | null; run?: string | null; task?: string | null; output?: string | null; metric?: string | null; input?: string | null; file?: string | null; direction?: "up" | "down" | null; depth?: number | null; limit?: number | null } = {}, signal?: AbortSignal) =>
  request<Lineage>('GET', `/api/v1/lineage`, query, undefined, signal);

/** This description */
export const openapi = (query: Query = {}, signal?: AbortSignal) =>
  request<OpenAPI>('GET', `/api/v1/openapi.json`, query, undefined, signal);

/** The pipeline files of the project, checked; their params, steps, sweeps, schedules */
export const pipelines = (query: { project?: string | null; path?: string | null } = {}, signal?: AbortSignal) =>
  request<Pipelines>('GET', `/api/v1/pipelines`, query, undefined, signal);

/** Find out what a run would do, without executing anything; plans/{plan} has the answer */
export const startPlan = (body: RunRequest, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Launched>('POST', `/api/v1/plans`, query, body, signal);

/** A plan, once it is made, as `cairn plan --json` prints it */
export const plan = (plan: string, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<PlanAnswer>('GET', `/api/v1/plans/${encodeURIComponent(plan)}`, query, undefined, signal);

/** The projects that are served */
export const projects = (query: Query = {}, signal?: AbortSignal) =>
  request<Projects>('GET', `/api/v1/projects`, query, undefined, signal);

/** Execute a past run again and compare; a run that wasn't begun here needs `trust` */
export const reproduce = (body: Reproduction, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Launched>('POST', `/api/v1/reproductions`, query, body, signal);

/** Runs, newest first */
export const runs = (query: { project?: string | null; pipeline?: string | null; state?: "running" | "died" | "succeeded" | "failed" | "cancelled" | "interrupted" | null; schedule?: string | null; since?: string | null; until?: string | null; param?: string | null; metric?: string | null; tag?: string | null; commit?: string | null; q?: string | null; metrics?: string | null; sort?: string | null; limit?: number | null; cursor?: string | null } = {}, signal?: AbortSignal) =>
  request<Runs>('GET', `/api/v1/runs`, query, undefined, signal);

/** Run a pipeline of the project; it goes on as a process of its own */
export const startRun = (body: RunRequest, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Launched>('POST', `/api/v1/runs`, query, body, signal);

/** One run, by its id, its hash or the beginning of one; `last`: the newest */
export const run = (run: string, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Run>('GET', `/api/v1/runs/${encodeURIComponent(run)}`, query, undefined, signal);

/** Answer a step that waits for a person */
export const approveStep = (run: string, body: Answer, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Answered>('POST', `/api/v1/runs/${encodeURIComponent(run)}/approve`, query, body, signal);

/** Attempts, in the order of their starts */
export const attempts = (run: string, query: { project?: string | null; task?: string | null; limit?: number | null; cursor?: string | null } = {}, signal?: AbortSignal) =>
  request<Attempts>('GET', `/api/v1/runs/${encodeURIComponent(run)}/attempts`, query, undefined, signal);

/** Ask the run's engine to stop */
export const cancelRun = (run: string, body: CancelRequest, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Cancelled>('POST', `/api/v1/runs/${encodeURIComponent(run)}/cancel`, query, body, signal);

/** The run's steps, what they need, and how many of their tasks are in which state */
export const runGraph = (run: string, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Graph>('GET', `/api/v1/runs/${encodeURIComponent(run)}/graph`, query, undefined, signal);

/** How long a log is, where its lines are, and its first error */
export const logIndex = (run: string, query: { project?: string | null; task?: string | null; attempt?: number | null; rank?: number | null } = {}, signal?: AbortSignal) =>
  request<LogIndex>('GET', `/api/v1/runs/${encodeURIComponent(run)}/log/index`, query, undefined, signal);

/** A part of a log as JSON text, with its place. Bytes that aren't UTF-8 are replaced. With `rank`: from `offset` on, at most so many `bytes` and `lines` of this rank */
export const logRange = (run: string, query: { project?: string | null; task?: string | null; attempt?: number | null; offset?: number | null; bytes?: number | null; rank?: number | null; lines?: number | null } = {}, signal?: AbortSignal) =>
  request<LogRange>('GET', `/api/v1/runs/${encodeURIComponent(run)}/log/range`, query, undefined, signal);

/** Lines of a log that have a text. An answer covers 64 MiB, or half a second, at most */
export const logSearch = (run: string, query: { project?: string | null; task?: string | null; attempt?: number | null; rank?: number | null; q?: string | null; regex?: boolean | null; case?: boolean | null; offset?: number | null; limit?: number | null } = {}, signal?: AbortSignal) =>
  request<LogMatches>('GET', `/api/v1/runs/${encodeURIComponent(run)}/log/search`, query, undefined, signal);

/** Metrics of those tasks that have some */
export const runMetrics = (run: string, query: { project?: string | null; step?: string | null; task?: string | null; limit?: number | null; cursor?: string | null } = {}, signal?: AbortSignal) =>
  request<RunMetrics>('GET', `/api/v1/runs/${encodeURIComponent(run)}/metrics`, query, undefined, signal);

/** Go on with a run that was stopped, failed or lost its engine */
export const resumeRun = (run: string, body: Nothing, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Launched>('POST', `/api/v1/runs/${encodeURIComponent(run)}/resume`, query, body, signal);

/** Metrics over time that steps wrote (`series`) */
export const runSeries = (run: string, query: { project?: string | null; task?: string | null; metric?: string | null; points?: number | null } = {}, signal?: AbortSignal) =>
  request<SeriesList>('GET', `/api/v1/runs/${encodeURIComponent(run)}/series`, query, undefined, signal);

/** One task: why it ran, what it was made of, what it read and made, its attempts */
export const runTask = (run: string, query: { project?: string | null; task?: string | null } = {}, signal?: AbortSignal) =>
  request<TaskDetail>('GET', `/api/v1/runs/${encodeURIComponent(run)}/task`, query, undefined, signal);

/** Every task that is known, also of a run that goes on: waiting ones and hits included */
export const tasks = (run: string, query: { project?: string | null; step?: string | null; task?: string | null; state?: "waiting" | "running" | "executed" | "hit" | "failed" | "skipped" | "blocked" | "cancelled" | null; q?: string | null; sort?: "started" | "-started" | "duration" | "-duration" | "task" | "-task" | null; limit?: number | null; cursor?: string | null } = {}, signal?: AbortSignal) =>
  request<Tasks>('GET', `/api/v1/runs/${encodeURIComponent(run)}/tasks`, query, undefined, signal);

/** When each task ran, which one it waited for and how long, and the critical path */
export const runTimeline = (run: string, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Timeline>('GET', `/api/v1/runs/${encodeURIComponent(run)}/timeline`, query, undefined, signal);

/** What a reproduction found, as `cairn reproduce --json` prints it */
export const verdict = (run: string, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Verdict>('GET', `/api/v1/runs/${encodeURIComponent(run)}/verdict`, query, undefined, signal);

/** Every schedule, when it fires next, and its last firing */
export const schedules = (query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<Schedules>('GET', `/api/v1/schedules`, query, undefined, signal);

/** Fire each nominal time of a range that has not succeeded, oldest first; the answer has these times */
export const backfillSchedule = (schedule: string, body: Backfill, query: { project?: string | null; path?: string | null } = {}, signal?: AbortSignal) =>
  request<Backfilled>('POST', `/api/v1/schedules/${encodeURIComponent(schedule)}/backfill`, query, body, signal);

/** Its firings and its next nominal times between two times; at most a thousand of each */
export const scheduleCalendar = (schedule: string, query: { project?: string | null; path?: string | null; from?: string | null; to?: string | null } = {}, signal?: AbortSignal) =>
  request<Calendar>('GET', `/api/v1/schedules/${encodeURIComponent(schedule)}/calendar`, query, undefined, signal);

/** Its firings, newest first */
export const scheduleHistory = (schedule: string, query: { project?: string | null; path?: string | null; limit?: number | null; cursor?: string | null } = {}, signal?: AbortSignal) =>
  request<Firings>('GET', `/api/v1/schedules/${encodeURIComponent(schedule)}/history`, query, undefined, signal);

/** The next nominal times */
export const scheduleNext = (schedule: string, query: { project?: string | null; path?: string | null; n?: number | null } = {}, signal?: AbortSignal) =>
  request<ScheduleNext>('GET', `/api/v1/schedules/${encodeURIComponent(schedule)}/next`, query, undefined, signal);

/** Stop firing until it is resumed */
export const pauseSchedule = (schedule: string, query: { project?: string | null; path?: string | null } = {}, signal?: AbortSignal) =>
  request<Paused>('POST', `/api/v1/schedules/${encodeURIComponent(schedule)}/pause`, query, undefined, signal);

/** Fire again, without making up for missed times */
export const resumeSchedule = (schedule: string, query: { project?: string | null; path?: string | null } = {}, signal?: AbortSignal) =>
  request<Paused>('POST', `/api/v1/schedules/${encodeURIComponent(schedule)}/resume`, query, undefined, signal);

/** Fire now */
export const triggerSchedule = (schedule: string, query: { project?: string | null; path?: string | null } = {}, signal?: AbortSignal) =>
  request<Triggered>('POST', `/api/v1/schedules/${encodeURIComponent(schedule)}/trigger`, query, undefined, signal);

/** Who asks, and what he may */
export const session = (query: Query = {}, signal?: AbortSignal) =>
  request<Session>('GET', `/api/v1/session`, query, undefined, signal);

/** Exchange a token for a session, kept in a cookie */
export const signIn = (body: SignIn, query: Query = {}, signal?: AbortSignal) =>
  request<Session>('POST', `/api/v1/session`, query, body, signal);

/** How much is in the store, and what was saved week by week; at most five minutes old */
export const store = (query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<StoreFacts>('GET', `/api/v1/store`, query, undefined, signal);

/** An address at which a browser can show content of the store: `base`, and a path in the tree or, for a file, a name. It is valid for an hour; ?download=1 saves the file */
export const view = (body: ViewRequest, query: { project?: string | null } = {}, signal?: AbortSignal) =>
  request<View>('POST', `/api/v1/views`, query, body, signal);

/** The process is alive and makes progress */
export const healthz = (query: Query = {}, signal?: AbortSignal) =>
  request<Health>('GET', `/healthz`, query, undefined, signal);

/** Everything that the server needs is available */
export const readyz = (query: Query = {}, signal?: AbortSignal) =>
  request<Readiness>('GET', `/readyz`, query, undefined, signal);
