// Which log, and its end: what is looked at first.

import { fetchRaw, type Query } from '../api/request';

export interface LogPlace {
  run: string;
  task: string;
  project: string | null;
  attempt: number | null;
  rank: number | null;
}

export const TAIL_BYTES = 64 << 10;
const TAIL_LINES = 500; // of a rank

export const logPath = (l: LogPlace) => `/api/v1/runs/${encodeURIComponent(l.run)}/log`;

export const logQuery = ({ project, task, attempt, rank }: LogPlace, more: Query = {}): Query => ({
  project,
  task,
  attempt,
  rank,
  ...more,
});

/** The place that the query of an address names. */
export const logPlace = (
  run: string,
  task: string,
  project: string | null,
  q: URLSearchParams,
): LogPlace => ({
  run,
  task,
  project,
  attempt: q.get('attempt') ? Number(q.get('attempt')) : null,
  rank: q.get('rank') ? Number(q.get('rank')) : null,
});

export const readTail = (l: LogPlace, signal?: AbortSignal) =>
  fetchRaw(
    'GET',
    logPath(l),
    logQuery(
      l,
      l.rank === null ? { offset: -TAIL_BYTES, bytes: TAIL_BYTES } : { lines: TAIL_LINES },
    ),
    undefined,
    signal,
  );
