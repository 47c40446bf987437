// What pages call. Most is generated; tuples, which JSON Schema hardly says, are named here.

import { request } from './request';
import type {
  Entries,
  Graph,
  SeriesList,
  Session,
  Task,
  TaskCounts,
  TaskDetail,
  Timeline as TimelineAnswer,
} from './generated';

export * from './generated';
export { calendar, plan, taskPages, verdict } from './shapes';
export type { CalendarEntry, PipelineFacts, PipelineParam, Plan, Verdict } from './shapes';
export { Problem, signInWanted, type Query } from './request';
export {
  runGraph as graph,
  tasks as taskRows,
  runTask as taskDetail,
  content as contentFacts,
  view as makeView,
  store as storeFacts,
  cluster as clusterFacts,
  reproduce as reproduceRun,
} from './generated';

export type TaskRow = Task;
export type GraphStep = Graph['steps'][number];
export type StepCounts = TaskCounts;
export type Port = TaskDetail['outputs'][number] & Partial<TaskDetail['inputs'][number]>;
export type Entry = Entries['entries'][number];

/** Task, its step's index, start and end in ns after the run's start, state, how long it waited, the
 * row of the task that it waited for, the time that a hit saved. */
export type TimelineRow = [
  string,
  number,
  number | null,
  number | null,
  Task['state'],
  number,
  number | null,
  number,
];
export type Timeline = Omit<TimelineAnswer, 'rows'> & { rows: TimelineRow[] };

/** Its step, its value, and when, in ns after the first, where that is known. */
export type SeriesPoint = [step: number, value: number | null, time_ns?: number | null];

export type Series = Omit<SeriesList['series'][number], 'points'> & { points: SeriesPoint[] };

export const series = (
  run: string,
  query: { project: string | null; task?: string; metric?: string; points?: number },
  signal?: AbortSignal,
) =>
  request<{ series: Series[] }>(
    'GET',
    `/api/v1/runs/${encodeURIComponent(run)}/series`,
    query,
    undefined,
    signal,
  );

export const timeline = (run: string, query: { project: string | null }, signal?: AbortSignal) =>
  request<Timeline>(
    'GET',
    `/api/v1/runs/${encodeURIComponent(run)}/timeline`,
    query,
    undefined,
    signal,
  );

export const signOut = () => request<void>('DELETE', '/api/v1/session');
export type { Session };
