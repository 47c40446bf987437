// Where pages want another form than the API gives: a plan that is waited for, a calendar in one list,
// causes of a comparison as sentences.

import * as g from './generated';
import { Problem, request } from './request';

type S = AbortSignal | undefined;
type InProject = { project: string | null };

export type PipelineFacts = g.Pipelines['pipelines'][number];
export type PipelineParam = PipelineFacts['params'][number];
export interface Plan {
  tasks: {
    task: string;
    step: string;
    state: 'hit' | 'run' | 'waiting' | 'skipped' | 'blocked';
    reason: string | null;
    estimate_ns: number | null;
  }[];
  counts: { total: number; hits: number; run: number; waiting: number };
  estimate_ns: number | null;
}

const PLAN_MS = 300_000;

/** What a run would do. It may hash for long: the server works, we ask. */
export async function plan(body: g.RunRequest, query: InProject, signal?: S): Promise<Plan> {
  const { launch } = await g.startPlan(body, query, signal);
  const until = Date.now() + PLAN_MS;
  for (let wait = 100; ; wait = Math.min(1000, wait * 1.5)) {
    const a = await g.plan(launch, query, signal);
    if (a.plan) return a.plan as unknown as Plan;
    if (a.state === 'ended' || Date.now() > until) throw new Problem(422, a.problem ?? '');
    await new Promise((r) => setTimeout(r, wait));
  }
}

/** The tasks of a run, or of one step, a page at a time. */
export async function* taskPages(run: string, query: InProject & { step?: string }, signal?: S) {
  let cursor: string | null = null;
  do {
    const page: g.Tasks = await g.tasks(run, { ...query, limit: 500, cursor }, signal);
    yield page.tasks;
    cursor = page.next;
  } while (cursor);
}

export interface CalendarEntry {
  nominal: string;
  state: string;
  run: string | null;
  message: string | null;
  /** How many nominal times it stands for: those before its own were missed. */
  times: number;
}

/** Past firings and planned ones, in one list. */
export async function calendar(
  schedule: string,
  query: InProject & { path: string; from: string; to: string },
  signal?: S,
): Promise<CalendarEntry[]> {
  const c = await g.scheduleCalendar(schedule, query, signal);
  return [
    ...c.firings
      .filter((f) => f.nominal !== null)
      .map((f) => ({
        nominal: f.nominal!,
        state: f.state,
        run: f.run,
        message: f.message,
        times: f.times ?? 1,
      })),
    ...c.planned.map((nominal) => ({
      nominal,
      state: 'planned',
      run: null,
      message: null,
      times: 1,
    })),
  ];
}

export interface Verdict {
  original: string;
  mode: 'isolated' | 'chained';
  verdict: string | null;
  first: string | null;
  was: g.Run;
  is: g.Run;
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

export const verdict = (run: string, query: InProject, signal?: S) =>
  request<Verdict>(
    'GET',
    `/api/v1/runs/${encodeURIComponent(run)}/verdict`,
    query,
    undefined,
    signal,
  );
